from pathlib import Path

import numpy as np
import pytest
import torch

from rote.workloads.data import samples as module
from rote.workloads.data.samples import Augmentation, SampleTensors, measure_normalization

CPU = torch.device("cpu")
IMAGES = np.random.default_rng(0).integers(0, 256, (20, 6, 6, 3), dtype=np.uint8)
PLACES = np.array([3, 1, 19, 7, 7])


def make(
    images: np.ndarray = IMAGES, *, crop: int = 0, channels_last: bool = True
) -> SampleTensors:
    return SampleTensors(
        images,
        PLACES,
        kind="images",
        normalization=measure_normalization("images", IMAGES, np.arange(20)),
        device=CPU,
        channels_last=channels_last,
        augmentation=Augmentation(crop) if crop else None,
    )


def expected(rows: np.ndarray) -> torch.Tensor:
    flat = IMAGES.reshape(-1, 3).astype(np.float64)
    normal = (rows.astype(np.float64) - flat.mean(0)) / flat.std(0)
    return torch.from_numpy(normal).permute(0, 3, 1, 2)


def mapped(folder: Path) -> np.ndarray:
    np.save(folder / "x.npy", IMAGES)
    images: np.ndarray = np.load(folder / "x.npy", mmap_mode="r")
    return images


@pytest.mark.parametrize("way", ["normalized once", "batch by batch", "mapped"])
@pytest.mark.parametrize("channels_last", [True, False])
def test_batches_are_the_same_however_samples_are_stored(
    way: str, channels_last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "batch by batch":
        monkeypatch.setattr(module, "READY_BYTES", 0)
    samples = make(mapped(tmp_path) if way == "mapped" else IMAGES, channels_last=channels_last)
    assert len(samples) == 5
    for chosen, rows in ((slice(1, 4), PLACES[1:4]), (torch.tensor([4, 0]), PLACES[[4, 0]])):
        batch = samples.batch(chosen)
        assert batch.dtype == torch.float32
        torch.testing.assert_close(batch.double(), expected(IMAGES[rows]), atol=1e-5, rtol=1e-5)
        layout = torch.channels_last if channels_last else torch.contiguous_format
        assert batch.is_contiguous(memory_format=layout)


def test_bytes_stay_bytes_when_they_are_augmented() -> None:
    samples = make(crop=2)
    assert samples._stored.dtype == torch.uint8
    plain = samples.batch(slice(0, 5))
    torch.testing.assert_close(plain.double(), expected(IMAGES[PLACES]), atol=1e-5, rtol=1e-5)
    drawn = samples.batch(slice(0, 5), torch.Generator().manual_seed(0))
    crop = Augmentation(2)(torch.from_numpy(IMAGES[PLACES]), torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.double(), expected(crop.numpy()), atol=1e-5, rtol=1e-5)
    assert drawn.is_contiguous(memory_format=torch.channels_last)


def test_token_ids_are_handed_out_as_such() -> None:
    ids = np.arange(8, dtype=np.int32).reshape(4, 2)
    samples = SampleTensors(ids, np.array([2, 0]), kind="tokens", normalization=None, device=CPU)
    assert torch.equal(samples.batch(slice(None)), torch.tensor([[4, 5], [0, 1]]))
