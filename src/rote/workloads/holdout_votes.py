"""Nearest-neighbor votes on the holdout of a spec's data, computed once per data set."""

from typing import Any

import numpy as np
from torch import Tensor

from rote.labels import neighbor_votes
from rote.probe import content_hash
from rote.workloads.data.samples import Samples
from rote.workloads.data.splits import Splits

NEIGHBORS = 10
_AT_ONCE = 2048
_KEPT = 8
_known: dict[str, np.ndarray] = {}  # a worker of a sweep trains many runs on the same data


def holdout_votes(splits: Splits) -> np.ndarray | None:
    """Return nearest-neighbor votes; None without a labeled holdout, or for token ids.

    Distances are those of normalized pixels or features, or of weighted word counts.
    """
    if splits.holdout_labels is None or splits.is_tokens:
        return None
    identity = content_hash({"holdout": splits.holdout, "labels": splits.labels})
    if identity not in _known:
        while len(_known) >= _KEPT:
            del _known[next(iter(_known))]
        _known[identity] = _counted(splits)
    return _known[identity]


def _counted(splits: Splits) -> np.ndarray:
    train: Any = _Rows(splits.train)
    holdout: Any = splits.holdout
    if splits.description["inputs"] == "bag-of-words":
        from scipy import sparse

        starts = range(0, len(train), _AT_ONCE)
        parts = [sparse.csr_matrix(train[at : at + _AT_ONCE].cpu().numpy()) for at in starts]
        train, holdout = sparse.vstack(parts), sparse.csr_matrix(holdout.cpu().numpy())
    k = min(NEIGHBORS, len(splits.train))
    return neighbor_votes(train, splits.labels, holdout, k=k, num_classes=splits.num_classes)


class _Rows:
    """Training samples that are normalized as they are asked for, never all at once."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, chosen: slice) -> Tensor:
        return self._samples.batch(chosen)
