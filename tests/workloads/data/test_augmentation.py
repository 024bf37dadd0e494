import torch
from hypothesis import given, strategies as st
from torch import Tensor

from rote.workloads.data.samples import Augmentation


def one_by_one(images: Tensor, crop: int, flip: bool, seed: int) -> Tensor:
    """The same, image by image and pixel by pixel."""
    generator = torch.Generator().manual_seed(seed)
    samples, height, width, channels = images.shape
    result = images.clone()
    if crop:
        rows, columns = torch.randint(2 * crop + 1, (2, samples), generator=generator)
        for i in range(samples):
            for h in range(height):
                for w in range(width):
                    y, x = h + int(rows[i]) - crop, w + int(columns[i]) - crop
                    inside = 0 <= y < height and 0 <= x < width
                    result[i, h, w] = images[i, y, x] if inside else torch.zeros(channels)
    if flip:
        for i, mirrored in enumerate(torch.rand(samples, generator=generator) < 0.5):
            if mirrored:
                result[i] = result[i].flip(1)
    return result


@given(st.integers(0, 3), st.booleans(), st.integers(0, 99), st.sampled_from([1, 3]))
def test_a_batch_is_augmented_as_image_by_image(
    crop: int, flip: bool, seed: int, channels: int
) -> None:
    images = torch.randint(1, 256, (4, 5, 5, channels), dtype=torch.uint8)
    before = images.clone()
    found = Augmentation(crop, flip)(images, torch.Generator().manual_seed(seed))
    assert torch.equal(found, one_by_one(images, crop, flip, seed))
    assert found.dtype == torch.uint8
    assert torch.equal(images, before)


def test_every_crop_and_both_mirror_images_occur() -> None:
    image = torch.arange(1, 10, dtype=torch.uint8).reshape(1, 3, 3, 1).expand(2000, -1, -1, -1)
    found = Augmentation(1, True)(image, torch.Generator().manual_seed(0))
    assert len(found.reshape(2000, -1).unique(dim=0)) == 9 * 2


def test_augmentation_knows_whether_it_changes_images() -> None:
    assert [Augmentation(*args).changes for args in ((0, False), (1, False), (0, True))] == [
        False,
        True,
        True,
    ]
