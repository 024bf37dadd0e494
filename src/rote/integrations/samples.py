"""S̃ out of a training set, as its loader would make a batch of it, without touching the loader."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from rote.errors import InputError
from rote.probe import Inputs
from rote.snapshot import RandomState, restored, restorer_of

LABEL_KEYS = frozenset({"label", "labels", "label_ids", "target", "targets", "y"})
"""Keys of a batch that are labels, not inputs."""

_GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
_WITHOUT = (type, ModuleType, str, bytes, torch.Tensor, np.ndarray)
_MANY = 1000  # a container longer than this holds data, not machinery


def draw_inputs(
    dataset: Any,  # noqa: ANN401  # whatever has a length and can be indexed
    collate_fn: Callable[[list[Any]], Any],
    samples: int = 128,
    inputs_of: Callable[[Any], Inputs] | None = None,
    *,
    seed: int = 0,
) -> Inputs:
    """Some samples of a dataset, always the same ones, without a trace.

    The samples are chosen at random, since many datasets are sorted by class, and augmented with
    random numbers of their own. Global generators, and those that the dataset or its transforms
    hold as attributes, are put back.

    Args:
        dataset: the training set.
        collate_fn: makes a batch of a list of samples, as in a ``DataLoader``.
        samples: how many to draw, if there are as many.
        inputs_of: takes a batch and returns what the model takes. By default the first entry of a
            tuple or list, or a mapping without its labels.
        seed: of the choice and of the augmentation.

    Returns:
        The inputs of a model.

    Raises:
        InputError: if the dataset cannot be indexed, is empty, fails to give a batch, or its
            batches are of another kind.
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
        return inputs_in(batch) if inputs_of is None else inputs_of(batch)


def _is_indexable(dataset: object) -> bool:
    return hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")


def inputs_in(batch: Any) -> Inputs:  # noqa: ANN401
    """What a model takes of a batch: its first entry, or the mapping without its labels.

    Args:
        batch: as a loader makes it.

    Raises:
        InputError: if it is of another kind.
    """
    if isinstance(batch, torch.Tensor):
        return batch
    if isinstance(batch, Mapping):
        return {key: value for key, value in batch.items() if key not in LABEL_KEYS}
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return inputs_in(batch[0]) if isinstance(batch[0], Mapping) else batch[0]
    raise InputError(
        "Expected a batch to be a tensor, a tuple that starts with the inputs, or a mapping, got "
        f"{type(batch).__name__}. Pass `inputs_of=`, which takes a batch and returns the inputs."
    )


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
