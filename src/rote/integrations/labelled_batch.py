"""A batch as a Hugging Face collator makes it: what the model takes, and the given labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rote.labels import IGNORE_INDEX, LabelSampler, MultiLabel, PerToken
from rote.probe import take


@dataclass(frozen=True)
class LabelledBatch:
    """Samples, and their given, possibly noisy labels if they came with some.

    Attributes:
        inputs: keyword arguments of the model, without labels; or whatever else brings samples.
        given: one label per sample, or per token, or a row of zeros and ones.
    """

    inputs: Any
    given: Tensor | None = None

    @classmethod
    def split(cls, batch: object, label_names: Collection[str]) -> LabelledBatch:
        """Take the labels out of a batch.

        Args:
            batch: a mapping; anything else has no labels.
            label_names: the keys of labels.
        """
        if not isinstance(batch, Mapping):
            return cls(batch)
        found = [batch[name] for name in label_names if name in batch]
        inputs = {name: value for name, value in batch.items() if name not in label_names}
        return cls(inputs, found[0] if found else None)

    def first(self, samples: int) -> LabelledBatch:
        """The first samples."""
        chosen = slice(samples)
        return LabelledBatch(
            take(self.inputs, chosen), None if self.given is None else self.given[chosen]
        )

    def random_labels(self, model: nn.Module, num_classes: int) -> LabelSampler | None:
        """Random labels of the same kind as the given ones.

        One per token where the given labels have one per token (or, without them, where the model
        is a token classifier); none at padding and where the given label is ignored. Zeros and ones
        as often as the given ones for a multi-label task.

        Args:
            model: the network.
            num_classes: how many classes.

        Returns:
            A sampler, or ``None`` where the default, one class per sample, will do.
        """
        given = self._template(model)
        if given is None or given.dim() < 2:
            return None
        if given.is_floating_point():
            return MultiLabel(len(given), num_classes, probability=given.mean().item())
        mask = self.inputs.get("attention_mask") if isinstance(self.inputs, Mapping) else None
        if isinstance(mask, Tensor) and mask.shape == given.shape:
            given = given.masked_fill(mask == 0, IGNORE_INDEX)
        return PerToken(given, num_classes)

    def _template(self, model: nn.Module) -> Tensor | None:
        is_per_token = type(model).__name__.endswith("ForTokenClassification")
        if self.given is not None or not is_per_token or not isinstance(self.inputs, Mapping):
            return self.given
        tokens = self.inputs.get("input_ids")
        return torch.zeros_like(tokens) if isinstance(tokens, Tensor) else None
