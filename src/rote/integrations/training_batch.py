"""Batches of a training set: drawn without its loader, and what is inputs and labels in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from rote.errors import InputError
from rote.labels import IGNORE_INDEX, LabelSampler, MultiLabel, PerToken
from rote.probe import Inputs, take
from rote.snapshot import RandomState, restored, restorer_of

_LABEL_KEYS = ("label", "labels", "label_ids", "target", "targets", "y")
_INDEX_KEYS = ("index", "indices", "idx")

_GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
_WITHOUT = (type, ModuleType, str, bytes, torch.Tensor, np.ndarray)
_MANY = 1000  # a container longer than this holds data, not machinery


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
        """Take the labels out of a batch."""
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


def draw_batch(
    dataset: Any,  # noqa: ANN401  # whatever has a length and can be indexed
    collate_fn: Callable[[list[Any]], Any],
    samples: int,
    *,
    seed: int,
    part_of: Callable[[Any], Any] = lambda batch: batch,
) -> Any:  # noqa: ANN401  # whatever the collator makes
    """A batch of some samples of a dataset, always the same ones, without a trace.

    The samples are chosen at random, since many datasets are sorted by class, and augmented with
    random numbers of their own. Global generators, and those that the dataset or its transforms
    hold as attributes, are put back.

    Args:
        dataset: the training set.
        collate_fn: makes a batch of a list of samples, as in a ``DataLoader``.
        samples: how many to draw, if there are as many.
        seed: of the choice and of the augmentation.
        part_of: what to take of the batch; it may draw random numbers, too.

    Raises:
        InputError: if the dataset cannot be indexed, is empty, or fails to give a batch.
    """
    if isinstance(dataset, IterableDataset) or not _is_indexable(dataset):
        raise InputError(
            "Expected a training set with a length and an index to draw S̃ from, got "
            f"{type(dataset).__name__}. Pass `inputs=`, a batch of unlabelled samples."
        )
    if len(dataset) == 0:
        raise InputError("Expected a training set with samples, got an empty one.")
    with restored(RandomState()), restored(_Generators(dataset)):
        random.seed(seed)
        np.random.seed(seed % 2**32)  # augmentations draw from the global one
        torch.manual_seed(seed)
        chosen = random.Random(seed).sample(range(len(dataset)), min(samples, len(dataset)))
        try:
            batch = collate_fn([dataset[index] for index in chosen])
        except Exception as error:
            raise InputError(
                "Expected a training set whose samples 0, 1, … can be made into a batch, got "
                f"{type(error).__name__}: {error}. Pass `inputs=`, a batch of unlabelled samples."
            ) from error
        return part_of(batch)


def _is_indexable(dataset: object) -> bool:
    return hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")


def inputs_in(batch: Any) -> Inputs:  # noqa: ANN401
    """What a model takes of a batch: its first entry, or the mapping without its labels.

    Raises:
        InputError: if it is of another kind.
    """
    if isinstance(batch, torch.Tensor):
        return batch
    if isinstance(batch, Mapping):
        return {key: value for key, value in batch.items() if key not in _LABEL_KEYS}
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return inputs_in(batch[0]) if isinstance(batch[0], Mapping) else batch[0]
    raise InputError(
        "Expected a batch to be a tensor, a tuple that starts with the inputs, or a mapping, got "
        f"{type(batch).__name__}. Pass `inputs_of=`, which takes a batch and returns the inputs."
    )


def labels_in(batch: object) -> Tensor | None:
    """The classes in a batch, where it is clear which entry they are: a pair, or a mapping."""
    found = []
    if isinstance(batch, Mapping):
        found = [value for key, value in batch.items() if key in _LABEL_KEYS]
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        found = [batch[1]]
    labels = found[0] if len(found) == 1 else None
    is_classes = isinstance(labels, Tensor) and not labels.is_floating_point()
    return labels if is_classes else None


def indices_in(batch: object) -> Tensor | None:
    """Which samples of the training set a batch holds, if it is a mapping that says so."""
    found = (
        [batch[key] for key in _INDEX_KEYS if key in batch] if isinstance(batch, Mapping) else []
    )
    return found[0] if found and isinstance(found[0], Tensor) else None


class _Generators:
    """Where the generators stand that an object and its parts hold."""

    def __init__(self, root: object) -> None:
        self._put_back = [restorer_of(generator) for generator in _generators_in(root)]

    def restore(self) -> None:
        for put_back in self._put_back:
            if put_back is not None:
                put_back()


def _generators_in(root: object) -> Iterator[object]:
    stack, seen = [root], set()
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, _WITHOUT):
            continue
        seen.add(id(item))
        if isinstance(item, _GENERATORS):
            yield item
        elif isinstance(item, Mapping | list | tuple | set):
            if len(item) <= _MANY:
                stack.extend(item.values() if isinstance(item, Mapping) else item)
        elif hasattr(item, "__dict__"):
            stack.append(vars(item))
