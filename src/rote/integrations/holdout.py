"""The holdout of a callback: its samples, their labels, and nearest-neighbor votes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset

from rote.errors import InputError
from rote.integrations.training_batch import LabeledBatch
from rote.labels import IGNORE_INDEX, neighbor_votes
from rote.probe import count_samples

INDICES_FILE = "holdout_indices.npy"
"""The samples of the training set that ``holdout="split"`` has set aside."""

_VOTERS = 5000
_NUMBERS = 2**25
_FEWEST_VOTERS = 20
_NEIGHBORS = 10


@dataclass(frozen=True)
class SampleSet:
    """A dataset with the function that makes a batch of a list of its samples.

    Attributes:
        dataset: Has a length and can be indexed.
        collate: Takes a list of samples and returns a batch, as in a ``DataLoader``.
        indices: Which samples of the training set these are, if they were set aside.
    """

    dataset: Any
    collate: Callable[[list[Any]], Any]
    indices: np.ndarray | None = None

    def save_indices(self, folder: Path) -> None:
        """Record which samples of the training set were set aside."""
        if self.indices is not None:
            np.save(folder / INDICES_FILE, self.indices, allow_pickle=False)


def split_indices(samples: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose which samples of a training set to set aside.

    Args:
        samples: How many samples the training set has.
        size: How many to set aside; at most a fifth of them are.
        seed: Seeds the choice.

    Returns:
        The indices that stay in training and those that are set aside, in ascending order.

    Raises:
        InputError: If the training set is too small.

    Example:
        >>> kept, aside = split_indices(10, 512, seed=0)
        >>> len(kept), len(aside)
        (8, 2)
    """
    size = min(size, samples // 5)
    if size < 1:
        raise InputError(
            f"Expected at least 5 training samples for holdout='split', got {samples}."
        )
    order = np.random.default_rng(seed).permutation(samples)
    return np.sort(order[size:]), np.sort(order[:size])


def take_subset(dataset: Any, indices: np.ndarray) -> Any:
    """Return some samples of a dataset, as a dataset; one of Hugging Face stays one."""
    if type(dataset).__module__.startswith("datasets."):
        return dataset.select(indices)
    return Subset(dataset, indices.tolist())


def find_usable_labels(
    batch: LabeledBatch, options: Mapping[str, Any], num_classes: int | None
) -> Tensor | None:
    """Return the labels of validation data if they are classes of the task, else ``None``."""
    given = batch.given
    if given is None or num_classes is None or (given.dim() > 1 and options.get("labels") is None):
        return None
    counted = given[given != IGNORE_INDEX]
    is_whole = bool((counted == counted.round()).all()) if given.is_floating_point() else True
    if not is_whole or not counted.numel() or (given.is_floating_point() and given.dim() < 2):
        return None
    return given if counted.min() >= 0 and counted.max() < num_classes else None


def vote_budget(holdout: LabeledBatch) -> int:
    """Return the number of training samples that can vote on a holdout cheaply; may be 0."""
    features = _read_features(holdout.inputs)
    if features is None or holdout.given is None or holdout.given.dim() != 1:
        return 0
    width = 1 if isinstance(holdout.inputs, Mapping) else features[0].numel()
    budget = min(_VOTERS, _NUMBERS // max(width, 1))
    return budget if budget >= _FEWEST_VOTERS else 0


def vote(train: LabeledBatch, holdout: LabeledBatch, num_classes: int | None) -> np.ndarray | None:
    """Let training samples vote on the classes of a holdout by their inputs' similarity.

    Token ids are compared by their weighted counts, pairs of texts by the difference of these,
    anything else as it is.

    Returns:
        Shares (holdout samples, classes); ``None`` if the training labels are not one class per
        sample, or too few.
    """
    if train.given is None or train.given.dim() != 1 or train.given.is_floating_point():
        return None
    features = _read_features(train.inputs), _read_features(holdout.inputs)
    if features[0] is None or features[1] is None or len(train.given) < _FEWEST_VOTERS:
        return None
    compared: tuple[Any, Any] = features
    if isinstance(holdout.inputs, Mapping):
        compared = _weigh_tokens(features[0], features[1])
    return neighbor_votes(
        compared[0], train.given.cpu(), compared[1], k=_NEIGHBORS, num_classes=num_classes
    )


def _read_features(inputs: Any) -> Tensor | None:
    """Return the one tensor of samples, or the token ids with -1 for padding."""
    if isinstance(inputs, Tensor):
        is_plain = inputs.layout == torch.strided and inputs.dim() > 1
        return inputs.detach().flatten(1) if is_plain and count_samples(inputs) else None
    tokens = inputs.get("input_ids") if isinstance(inputs, Mapping) else None
    if not isinstance(tokens, Tensor) or tokens.dim() not in (2, 3) or tokens.is_floating_point():
        return None
    mask = inputs.get("attention_mask")
    is_masked = isinstance(mask, Tensor) and mask.shape == tokens.shape
    return tokens.masked_fill(mask == 0, -1) if is_masked else tokens


def _weigh_tokens(train: Tensor, holdout: Tensor) -> tuple[Any, Any]:
    """Count tokens per sample, and weigh them by TF-IDF; of a pair, take the difference."""
    from sklearn.feature_extraction.text import TfidfTransformer

    width = int(max(train.max(), holdout.max())) + 1
    rows = [tokens.reshape(-1, tokens.shape[-1]).cpu().numpy() for tokens in (train, holdout)]
    counts = [_count_tokens(tokens, width) for tokens in rows]
    weights = TfidfTransformer(sublinear_tf=True).fit(counts[0])
    found = [weights.transform(matrix) for matrix in counts]
    if train.dim() == 3:
        found = [matrix[0::2] - matrix[1::2] for matrix in found]
    return found[0], found[1]


def _count_tokens(tokens: np.ndarray, width: int) -> Any:
    from scipy.sparse import coo_matrix

    rows = np.repeat(np.arange(len(tokens)), tokens.shape[1])
    flat = tokens.reshape(-1)
    is_token = flat >= 0
    ones = np.ones(int(is_token.sum()), dtype=np.float32)
    shape = (len(tokens), width)
    return coo_matrix((ones, (rows[is_token], flat[is_token])), shape=shape).tocsr()
