"""Samples as tensors: stored compactly, handed out as batches that a model takes."""

import numpy as np
import torch
from torch import Tensor

from rote.workloads.data.augmentation import Augmentation
from rote.workloads.data.dataset import Array, Labels
from rote.workloads.data.normalization import Normalization
from rote.workloads.spec import InputKind

READY_BYTES = 64 * 2**20
"""Sets that are no larger as floats are normalized once instead of batch by batch."""


class Samples:
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
                self._stored = self._finished(self._stored)
                self._normalization = None

    def __len__(self) -> int:
        return len(self._places)

    def batch(self, chosen: Tensor | slice, generator: torch.Generator | None = None) -> Tensor:
        """Some samples, ready for a model; with a generator they are augmented, if the split is.

        Returns:
            Images (samples, channels, height, width), rows of numbers, or token ids.
        """
        rows = self._fetch(chosen)
        if generator is not None and self._augmentation is not None:
            rows = self._augmentation(rows, generator)
        rows = self._finished(rows)
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

    def _finished(self, rows: Tensor) -> Tensor:
        """Samples as the number type that the model takes."""
        if self._kind == "tokens":
            return rows.long()
        return rows.float() if self._normalization is None else self._normalization(rows)
