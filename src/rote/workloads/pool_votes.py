"""The votes of neighbours on the pool of a spec's data, made once for all runs on the same data."""

from typing import Any

import numpy as np
from torch import Tensor

from rote.labels import neighbour_votes
from rote.probe import content_hash
from rote.workloads.data.samples import Samples
from rote.workloads.data.splits import Splits

NEIGHBOURS = 10
_AT_ONCE = 2048
_KEPT = 8
_known: dict[str, np.ndarray] = {}  # a worker of a sweep trains many runs on the same data


def pool_votes(splits: Splits) -> np.ndarray | None:
    """Votes of the training samples' given labels; None without a labelled pool, or for token ids.

    Distances are those of normalised pixels or features, or of weighted word counts.
    """
    if splits.pool_labels is None or splits.is_tokens:
        return None
    identity = content_hash({"pool": splits.pool, "labels": splits.labels})
    if identity not in _known:
        while len(_known) >= _KEPT:
            del _known[next(iter(_known))]
        _known[identity] = _counted(splits)
    return _known[identity]


def _counted(splits: Splits) -> np.ndarray:
    train: Any = _Rows(splits.train)
    pool: Any = splits.pool
    if splits.description["inputs"] == "bag-of-words":
        from scipy import sparse

        starts = range(0, len(train), _AT_ONCE)
        parts = [sparse.csr_matrix(train[at : at + _AT_ONCE].cpu().numpy()) for at in starts]
        train, pool = sparse.vstack(parts), sparse.csr_matrix(pool.cpu().numpy())
    k = min(NEIGHBOURS, len(splits.train))
    return neighbour_votes(train, splits.labels, pool, k=k, num_classes=splits.num_classes)


class _Rows:
    """Training samples that are normalised as they are asked for, never all at once."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, chosen: slice) -> Tensor:
        return self._samples.batch(chosen)
