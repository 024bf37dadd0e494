"""Samples as tensors: stored compactly, normalized, augmented, and handed out in batches."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rote.workloads.data.dataset import Array, Labels
from rote.workloads.spec import InputKind

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Normalization:
    """x · scale + shift, elementwise.

    Attributes:
        scale: one over the deviation; of the shape of a sample.
        shift: minus the mean over the deviation.
    """

    scale: Tensor
    shift: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """Normalize samples of any number type."""
        return torch.addcmul(self.shift, rows.float(), self.scale)

    def to(self, device: torch.device) -> "Normalization":
        """Return the same normalization on a device."""
        return Normalization(self.scale.to(device), self.shift.to(device))


def measure_normalization(kind: InputKind, samples: Array, places: Labels) -> Normalization | None:
    """Measure the samples of the training set.

    Args:
        kind: images are measured per channel and features per column; words and tokens are left
            as they are.
        samples: (samples, …, channels or columns); may be mapped from disk.
        places: which of them are used, in ascending order.

    Returns:
        The normalization, or None.
    """
    if kind not in ("images", "features"):
        return None
    width = samples.shape[-1]
    count, total, squares = 0, np.zeros(width), np.zeros(width)
    for start in range(0, len(places), _ROWS_AT_ONCE):
        chosen = samples[places[start : start + _ROWS_AT_ONCE]]
        block = np.asarray(chosen, dtype=np.float64).reshape(-1, width)
        count += len(block)
        total += block.sum(axis=0)
        squares += (block**2).sum(axis=0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    # A column that never changes, up to rounding, says nothing: leave its scale alone.
    deviation[deviation <= 1e-7 * np.abs(mean)] = 1.0
    deviation[deviation == 0] = 1.0
    # As large as a sample, so that torch works through a batch in long strides.
    scale = np.broadcast_to(1 / deviation, samples.shape[1:])
    shift = np.broadcast_to(-mean / deviation, samples.shape[1:])
    return Normalization(
        torch.from_numpy(scale.astype(np.float32, order="C")),
        torch.from_numpy(shift.astype(np.float32, order="C")),
    )


@dataclass(frozen=True)
class Augmentation:
    """Augmentation: padding, random crops and random mirroring.

    Attributes:
        crop: black pixels added on every side before a crop of the old size; 0 does not crop.
        flip: whether to mirror left and right, each image with probability one half.
    """

    crop: int = 0
    flip: bool = False

    @property
    def changes(self) -> bool:
        """Whether the augmentation changes images."""
        return self.crop > 0 or self.flip

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment images (samples, height, width, channels), drawing from a CPU generator."""
        if self.crop > 0:
            images = self._crop(images, generator)
        if self.flip:
            mirrored = torch.rand(len(images), generator=generator).lt(0.5).to(images.device)
            images = torch.where(mirrored[:, None, None, None], images.flip(2), images)
        return images

    def _crop(self, images: Tensor, generator: torch.Generator) -> Tensor:
        samples, height, width, _ = images.shape
        corners = torch.randint(2 * self.crop + 1, (2, samples), generator=generator)
        rows, columns = corners.to(images.device)
        pad = self.crop
        padded = functional.pad(images, (0, 0, pad, pad, pad, pad))
        # Every possible crop as a view: (samples, row, column, channels, height, width).
        windows = padded.unfold(1, height, 1).unfold(2, width, 1)
        chosen = windows[torch.arange(samples, device=images.device), rows, columns]
        return chosen.permute(0, 2, 3, 1)


READY_BYTES = 64 * 2**20
"""Sets up to this size as floats are normalized once instead of batch by batch."""


class SampleTensors:
    """The inputs of one split.

    Bytes stay bytes; arrays that are mapped from disk stay there. Images are stored with the
    channels last, which is also how they are handed out, as a view with the channel axis first.

    Args:
        source: an array of samples.
        places: which of them belong to the split.
        kind: what they are.
        normalization: how to normalize them.
        device: where batches, and samples in memory, live.
        channels_last: whether images keep their channels last in memory.
        augmentation: of training batches.
    """

    def __init__(
        self,
        source: Array,
        places: Labels,
        *,
        kind: InputKind,
        normalization: Normalization | None,
        device: torch.device,
        channels_last: bool = True,
        augmentation: Augmentation | None = None,
    ) -> None:
        self._kind = kind
        self._device = device
        self._channels_last = channels_last
        self._augmentation = augmentation
        self._normalization = None if normalization is None else normalization.to(device)
        self._places = places
        self._mapped = source if isinstance(source, np.memmap) else None
        if self._mapped is None:
            self._stored = torch.from_numpy(source[places]).to(device)
            if self._stored.numel() * 4 <= READY_BYTES and augmentation is None:
                self._stored = self._finish(self._stored)
                self._normalization = None

    def __len__(self) -> int:
        return len(self._places)

    def batch(self, chosen: Tensor | slice, generator: torch.Generator | None = None) -> Tensor:
        """Return some samples, ready for a model; a generator augments them, if the split does so.

        Returns:
            Images (samples, channels, height, width), rows of numbers, or token ids.
        """
        rows = self._fetch(chosen)
        if generator is not None and self._augmentation is not None:
            rows = self._augmentation(rows, generator)
        rows = self._finish(rows)
        if self._kind != "images":
            return rows
        images = rows.permute(0, 3, 1, 2)
        return images if self._channels_last else images.contiguous()

    def _fetch(self, chosen: Tensor | slice) -> Tensor:
        if self._mapped is None:
            if isinstance(chosen, slice):
                return self._stored[chosen]
            return self._stored.index_select(0, chosen.to(self._device))
        places = self._places[chosen if isinstance(chosen, slice) else chosen.cpu().numpy()]
        return torch.from_numpy(self._mapped[places]).to(self._device)

    def _finish(self, rows: Tensor) -> Tensor:
        """Convert samples to the number type that the model takes."""
        if self._kind == "tokens":
            return rows.long()
        return rows.float() if self._normalization is None else self._normalization(rows)
