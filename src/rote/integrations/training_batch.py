"""Batches of a training set, split into inputs, labels and indices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rote.labels import IGNORE_INDEX, LabelSampler, MultiLabel, PerToken
from rote.probe import LABEL_KEYS, take

_INDEX_KEYS = ("index", "indices", "idx")


@dataclass(frozen=True)
class LabeledBatch:
    """Samples, and their given (noisy) labels if they came with some.

    Labels are one per sample, one per token, or a row of zeros and ones per sample.
    """

    inputs: Any
    given: Tensor | None = None

    @classmethod
    def split(cls, batch: object, label_names: Collection[str]) -> LabeledBatch:
        """Split a batch into inputs and labels."""
        if not isinstance(batch, Mapping):
            return cls(batch)
        found = [batch[name] for name in label_names if name in batch]
        inputs = {name: value for name, value in batch.items() if name not in label_names}
        return cls(inputs, found[0] if found else None)

    def first(self, samples: int) -> LabeledBatch:
        """Return the first samples."""
        chosen = slice(samples)
        return LabeledBatch(
            take(self.inputs, chosen), None if self.given is None else self.given[chosen]
        )

    def random_labels(self, model: nn.Module, num_classes: int) -> LabelSampler | None:
        """Return a sampler of random labels of the same kind as the given ones.

        One per token where the given labels have one per token (or, without them, where the model
        is a token classifier); none at padding and where the given label is ignored. Zeros and ones
        as often as the given ones for a multi-label task.

        Returns:
            A sampler, or ``None`` where the default, one class per sample, fits.
        """
        given = self._find_template(model)
        if given is None or given.dim() < 2:
            return None
        if given.is_floating_point():
            return MultiLabel(len(given), num_classes, probability=given.mean().item())
        mask = self.inputs.get("attention_mask") if isinstance(self.inputs, Mapping) else None
        if isinstance(mask, Tensor) and mask.shape == given.shape:
            given = given.masked_fill(mask == 0, IGNORE_INDEX)
        return PerToken(given, num_classes)

    def _find_template(self, model: nn.Module) -> Tensor | None:
        is_per_token = type(model).__name__.endswith("ForTokenClassification")
        if self.given is not None or not is_per_token or not isinstance(self.inputs, Mapping):
            return self.given
        tokens = self.inputs.get("input_ids")
        return torch.zeros_like(tokens) if isinstance(tokens, Tensor) else None


def find_labels(batch: object) -> Tensor | None:
    """Return the classes in a batch if it is clear which entry they are: a pair, or a mapping.

    Zeros and ones as floating numbers, which a binary cross entropy takes, count as classes.
    """
    found = []
    if isinstance(batch, Mapping):
        found = [value for key, value in batch.items() if key in LABEL_KEYS]
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        found = [batch[1]]
    labels = found[0] if len(found) == 1 else None
    if not isinstance(labels, Tensor) or not labels.is_floating_point():
        return labels if isinstance(labels, Tensor) else None
    is_vector = labels.dim() > 0 and labels.numel() == len(labels)
    is_binary = is_vector and bool(((labels == 0) | (labels == 1)).all())
    return labels.reshape(-1).long() if is_binary else None


def find_indices(batch: object) -> Tensor | None:
    """Return which samples of the training set a batch holds, if it is a mapping with indices."""
    named = batch if isinstance(batch, Mapping) else {}
    found = next((named[key] for key in _INDEX_KEYS if key in named), None)
    return found if isinstance(found, Tensor) else None
