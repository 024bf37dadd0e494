"""Random crops and mirror images, for a whole batch at once."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Augmentation:
    """Pad, crop at random, mirror at random.

    Attributes:
        crop: black pixels added on every side before a crop of the old size; 0 does not crop.
        flip: whether to mirror left and right, each image with probability one half.
    """

    crop: int = 0
    flip: bool = False

    @property
    def changes(self) -> bool:
        """Whether it does anything."""
        return self.crop > 0 or self.flip

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment images (samples, height, width, channels), drawing from a CPU generator."""
        if self.crop > 0:
            images = self._cropped(images, generator)
        if self.flip:
            mirrored = torch.rand(len(images), generator=generator).lt(0.5).to(images.device)
            images = torch.where(mirrored[:, None, None, None], images.flip(2), images)
        return images

    def _cropped(self, images: Tensor, generator: torch.Generator) -> Tensor:
        samples, height, width, _ = images.shape
        corners = torch.randint(2 * self.crop + 1, (2, samples), generator=generator)
        rows, columns = corners.to(images.device)
        pad = self.crop
        padded = functional.pad(images, (0, 0, pad, pad, pad, pad))
        # Every possible crop as a view: (samples, row, column, channels, height, width).
        windows = padded.unfold(1, height, 1).unfold(2, width, 1)
        chosen = windows[torch.arange(samples, device=images.device), rows, columns]
        return chosen.permute(0, 2, 3, 1)
