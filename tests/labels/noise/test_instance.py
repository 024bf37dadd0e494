"""Instance-dependent noise against a per-sample loop and closed forms."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rote.errors import InputError
from rote.labels import noise
from rote.labels.noise import NoisyLabels, _draw_truncated_normal, add_noise


def noisy(
    clean: np.ndarray, inputs: object, *, rate: float = 0.4, classes: int = 4, **options: Any
) -> NoisyLabels:
    return add_noise(
        clean,
        model="instance",
        rate=rate,
        num_classes=classes,
        generator=np.random.default_rng(5),
        inputs=inputs,  # type: ignore[arg-type]
        **options,
    )


def one_by_one(
    clean: np.ndarray, inputs: np.ndarray, rate: float, classes: int, scale: float
) -> list[int]:
    """The definition, sample by sample, from the same stream of numbers."""
    generator = np.random.default_rng(5)
    flip = generator.normal(rate, 0.1, len(clean))
    assert ((flip >= 0) & (flip <= 1)).all(), "the oracle does not redraw"
    uniform = generator.random(len(clean))
    flat = inputs.reshape(len(inputs), -1).astype(float)
    weights = generator.standard_normal((classes, flat.shape[1], classes))
    labels = []
    for x, y, q, u in zip(flat, clean, flip, uniform, strict=True):
        scores = [float(scale * x @ weights[y][:, k]) for k in range(classes)]
        top = max(scores[k] for k in range(classes) if k != y)
        raw = [0.0 if k == y else math.exp(scores[k] - top) for k in range(classes)]
        chances = [q * value / sum(raw) for value in raw]
        chances[y] = 1 - q
        label, reached = 0, chances[0]
        while u >= reached and label < classes - 1:
            label += 1
            reached += chances[label]
        labels.append(label)
    return labels


@pytest.mark.parametrize("scale", [0.05, 1.0, 50.0])
@pytest.mark.parametrize("rows_at_once", [7, 1024])
def test_equals_the_loop_over_samples(
    scale: float, rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise, "_ROWS_AT_ONCE", rows_at_once)
    generator = np.random.default_rng(1)
    inputs = generator.integers(0, 17, size=(300, 1, 4, 4)).astype(np.uint8)
    clean = generator.integers(4, size=300)
    result = noisy(clean, inputs, rate=0.5, input_scale=scale)
    assert result.labels.tolist() == one_by_one(clean, inputs, 0.5, 4, scale)
    assert result.description["input_scale"] == scale


def test_equal_inputs_of_zeros_flip_uniformly() -> None:
    clean = np.zeros(30_000, dtype=np.int64)
    shares = np.bincount(noisy(clean, np.zeros((30_000, 3))).labels, minlength=4) / 30_000
    expected = np.array([0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3])
    assert (np.abs(shares - expected) < 4 * np.sqrt(expected * (1 - expected) / 30_000)).all()


def test_larger_inputs_flip_to_fewer_classes() -> None:
    clean = np.zeros(3000, dtype=np.int64)
    inputs = np.ones((3000, 8))

    def share_of_the_commonest(scale: float) -> float:
        result = noisy(clean, inputs, classes=10, input_scale=scale)
        wrong = np.bincount(result.labels[result.mask], minlength=10)
        return float(wrong.max() / wrong.sum())

    shares = [share_of_the_commonest(scale) for scale in (0.001, 0.5, 100.0)]
    assert shares[0] < 0.16 < shares[1] < 0.999 < shares[2]


def test_scale_multiplies_the_inputs() -> None:
    generator = np.random.default_rng(0)
    inputs, clean = generator.random((400, 6)), generator.integers(4, size=400)
    scaled = noisy(clean, inputs, input_scale=0.25).labels
    assert np.array_equal(scaled, noisy(clean, inputs * 0.25).labels)
    assert not np.array_equal(scaled, noisy(clean, inputs).labels)


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.95])
def test_flip_rates_are_a_truncated_normal(rate: float) -> None:
    draws = _draw_truncated_normal(rate, 40_000, np.random.default_rng(0))
    assert draws.min() >= 0
    assert draws.max() <= 1
    low, high = (0 - rate) / 0.1, (1 - rate) / 0.1
    mass = 0.5 * (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)))
    density = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (low, high)]
    mean = rate + 0.1 * (density[0] - density[1]) / mass
    assert draws.mean() == pytest.approx(mean, abs=4 * 0.1 / math.sqrt(40_000))


def test_realized_rate_is_near_the_requested_one() -> None:
    generator = np.random.default_rng(0)
    clean = generator.integers(4, size=20_000)
    result = noisy(clean, generator.random((20_000, 5)), rate=0.4)
    assert result.realized_rate == pytest.approx(0.4, abs=0.015)


def test_reads_memory_mapped_inputs(tmp_path: Any) -> None:
    generator = np.random.default_rng(0)
    inputs: NDArray[np.uint8] = generator.integers(0, 255, (50, 2, 2, 3)).astype(np.uint8)
    np.save(tmp_path / "inputs.npy", inputs)
    mapped = np.load(tmp_path / "inputs.npy", mmap_mode="r")
    clean = generator.integers(4, size=50)
    assert np.array_equal(noisy(clean, mapped).labels, noisy(clean, inputs).labels)


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (None, {}, "Model 'instance' needs `inputs`"),
        (np.zeros((5, 2)), {}, r"to hold one sample per label \(4\), got shape \(5, 2\)"),
        (np.float64(3), {}, r"to hold one sample per label \(4\), got shape \(\)"),
        (np.array(["a"] * 4), {}, "Expected `inputs` to be an array of real numbers, got <U1"),
        (np.zeros((4, 2), complex), {}, "to be an array of real numbers, got complex128"),
        (np.array([0, 1, math.nan, 1]), {}, "to be finite, got NaN or infinity in sample 2"),
        (
            np.zeros((4, 2)),
            {"input_scale": 0},
            "Expected `input_scale` .* positive and finite, got 0",
        ),
        (np.zeros((4, 2)), {"input_scale": math.inf}, "Expected `input_scale` .* got inf"),
        (np.zeros((4, 2)), {"scale": 2}, "to be one of input_scale, got 'scale'"),
    ],
)
def test_bad_arguments_of_noise_are_refused(
    inputs: object, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        noisy(np.array([0, 1, 2, 3]), inputs, **options)
