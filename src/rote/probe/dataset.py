"""Samples drawn from a dataset or a loader without changing what training will draw."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from rote.errors import InputError, RoteError
from rote.probe.inputs import Inputs, is_bundle
from rote.snapshot import RandomState, find_reachable, make_restorer, restore_after

LABEL_KEYS = ("label", "labels", "label_ids", "target", "targets", "y")
"""The keys that hold labels in a batch that is a mapping."""

T = TypeVar("T")

_MANY = 1000


def is_dataset(source: object) -> bool:
    """Return whether something is a dataset, or a loader of one."""
    if isinstance(source, Dataset | DataLoader):
        return True
    is_loader = hasattr(source, "dataset") and hasattr(source, "collate_fn")
    return is_loader or type(source).__module__.startswith("datasets.")  # Hugging Face's


@dataclass(frozen=True)
class SampleSource:
    """A dataset from which unlabeled samples are drawn by index, without its loader and workers.

    The generators of the loader, of Python, NumPy and torch do not advance.

    Attributes:
        source: a dataset that can be indexed, or a loader of one.
        take: picks the inputs out of a batch; by default its first entry, or a mapping without its
            labels.
    """

    source: Any
    take: Callable[[Any], Inputs] | None = None

    def draw(self, samples: int, seed: int) -> Inputs:
        """Draw this many samples, or all if there are fewer, chosen and augmented by the seed.

        Raises:
            InputError: if the dataset cannot be indexed, is empty, or gives no batch.
        """
        dataset, collate = self.source, default_collate
        if hasattr(dataset, "collate_fn"):
            collate = dataset.collate_fn
            if isinstance(dataset, DataLoader) and dataset.batch_sampler is None:
                raise InputError(
                    "Expected `inputs` to be a loader that makes batches of samples, got one with "
                    "batch_size=None. Pass its dataset with `take=`, or a batch of samples."
                )
            dataset = dataset.dataset
        part_of = find_inputs if self.take is None else self.take
        return draw_batch(dataset, collate, samples, seed=seed, part_of=part_of)


def draw_batch(
    dataset: Any,  # noqa: ANN401  # whatever has a length and can be indexed
    collate_fn: Callable[[list[Any]], Any],
    samples: int,
    *,
    seed: int,
    part_of: Callable[[Any], T],
) -> T:
    """Draw a batch of a dataset by seed, without changing any generator.

    The samples are chosen at random, since many datasets are sorted by class, and augmented with
    random numbers of their own. Global generators, and those that the dataset or its transforms
    hold as attributes, are restored.

    Args:
        dataset: the training set.
        collate_fn: makes a batch of a list of samples, as in a ``DataLoader``.
        samples: the maximum number of samples.
        seed: the seed of the choice and the augmentation.
        part_of: selects the part of the batch to return; it may draw random numbers.

    Raises:
        InputError: if the dataset cannot be indexed, is empty, or fails to give a batch.
    """
    is_indexable = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if isinstance(dataset, IterableDataset) or not is_indexable:
        raise InputError(
            f"The probe cannot draw samples from {type(dataset).__name__}, which has no length or "
            "cannot be indexed. Pass `inputs=`, a batch of unlabeled samples."
        )
    if len(dataset) == 0:
        raise InputError("The training set is empty. Pass `inputs=`, a batch of unlabeled samples.")
    with restore_after(RandomState()), restore_after(_Generators(dataset, collate_fn, part_of)):
        random.seed(seed)
        np.random.seed(seed % 2**32)  # augmentations draw from the global one
        torch.manual_seed(seed)
        chosen = random.Random(seed).sample(range(len(dataset)), min(samples, len(dataset)))
        try:
            batch = collate_fn([dataset[index] for index in chosen])
        except Exception as error:
            raise InputError(
                "The samples of the training set cannot be made into a batch: "
                f"{type(error).__name__}: {error}. Pass `inputs=`, a batch of unlabeled samples."
            ) from error
        try:
            return part_of(batch)
        except RoteError:
            raise
        except Exception as error:
            raise InputError(
                "`take` (`inputs_of` of callbacks) failed to pick the inputs out of a batch: "
                f"{type(error).__name__}: {error}. A batch is {_describe_batch(batch)}."
            ) from error


def _describe_batch(batch: object) -> str:
    if isinstance(batch, Mapping):
        return f"a mapping with {', '.join(map(repr, batch))}"
    size = f" of {len(batch)}" if isinstance(batch, Sequence) else ""
    return f"a {type(batch).__name__}{size}"


def find_inputs(batch: Any) -> Inputs:  # noqa: ANN401
    """Return the inputs in a batch: its first entry, or the mapping without its labels.

    Raises:
        InputError: if the batch is neither a tensor, a sequence nor a mapping.
    """
    if isinstance(batch, torch.Tensor):
        return batch
    if isinstance(batch, Mapping):
        return {key: value for key, value in batch.items() if key not in LABEL_KEYS}
    if isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
        return find_inputs(batch[0]) if isinstance(batch[0], Mapping) else batch[0]
    rows = ", for graphs rote.Samples(batch, axis=None, rows=batch.num_graphs)"
    raise InputError(
        "Expected a batch to be a tensor, a tuple that starts with the inputs, or a mapping, got "
        f"{type(batch).__name__}. Pass `inputs_of=` (`take=` of rote.track), which takes a batch "
        f"and returns the inputs{rows if is_bundle(batch) else ''}."
    )


class _Generators:
    """The states of all generators that can be reached from some objects."""

    def __init__(self, *roots: object) -> None:
        # A container longer than this holds data.
        found = list(find_reachable(roots, opens_all=True, longest=_MANY))
        self._restorers = [make_restorer(item) for item in found]

    def restore(self) -> None:
        for restore in self._restorers:
            if restore is not None:
                restore()
