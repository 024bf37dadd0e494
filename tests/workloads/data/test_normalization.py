import numpy as np
import torch
from hypothesis import given, strategies as st

from rote.workloads.data.samples import measure_normalization

RNG = np.random.default_rng(0)


def test_images_have_zero_mean_and_unit_deviation_per_channel() -> None:
    images = RNG.integers(0, 256, (5000, 4, 4, 3), dtype=np.uint8)
    images[..., 1] //= 7
    normalize = measure_normalization("images", images, np.arange(5000))
    assert normalize is not None
    found = normalize(torch.from_numpy(images)).double()
    torch.testing.assert_close(found.mean((0, 1, 2)), torch.zeros(3).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        found.std((0, 1, 2), correction=0), torch.ones(3).double(), atol=1e-5, rtol=0
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_features_agree_with_numpy(seed: int, samples: int) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(samples, 4)) * [1, 10, 0.1, 0] + [0, 5, -1, 3]).astype(np.float32)
    used = np.flatnonzero(rng.random(samples) < 0.7) if samples > 3 else np.arange(samples)
    normalize = measure_normalization("features", rows, used)
    if len(used) == 0 or normalize is None:
        return
    mean, deviation = rows[used].mean(0, dtype=np.float64), rows[used].std(0, dtype=np.float64)
    constant = deviation <= 1e-6 * np.abs(mean) + 1e-12
    expected = (rows - mean) / np.where(constant, 1, deviation)
    found = normalize(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=1e-3)


def test_words_and_tokens_are_not_normalized() -> None:
    assert measure_normalization("bag-of-words", np.ones((3, 2)), np.arange(3)) is None
    assert measure_normalization("tokens", np.ones((3, 2), int), np.arange(3)) is None
