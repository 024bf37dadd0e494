"""SELC's metric: how far apart the losses of two kinds of training samples lie.

Lu and He, "SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels", IJCAI 2022.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from rote.records import Column
from rote.tracking import Batch, Signal, WaitingBatches

# As DivideMix fits its mixture, on losses scaled to [0, 1].
_ROUNDS, _TOLERANCE, _LEAST_VARIANCE = 10, 1e-2, 5e-4

Floats = NDArray[np.float64]


class Selc(Signal):
    """The mean of the high-loss component minus that of the low-loss one.

    The components are those of a mixture of two Gaussians on the cross entropies of the training
    samples, taken from the training's own forward passes (the paper makes a pass of its own). The
    gap is widest before wrong labels are learned.
    """

    name = "selc"
    draws = False
    columns = (
        Column(
            "selc", "gap between two kinds of losses", "signal", better="higher", rule="max:selc"
        ),
    )

    def __init__(self) -> None:
        self._waiting = WaitingBatches()
        self._losses: list[Tensor] = []

    def observe(self, batch: Batch) -> None:
        """Note the loss of every sample."""
        batch.check_rows(self.name)
        if self._waiting.add(batch):
            self._note()

    def _note(self) -> None:
        waiting = self._waiting.take()
        if waiting is not None:
            logits, labels = waiting.rows(self.name)
            self._losses.append(cross_entropy(logits.float(), labels, reduction="none"))

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the gap; nothing where all losses are the same."""
        losses = self._take_noted().double().numpy()
        self._losses = []
        gap = compute_mixture_gap(losses[np.isfinite(losses)])
        return {} if gap is None else {"selc": gap}

    def state_dict(self) -> dict[str, Any]:
        """Return the losses since the last reading."""
        return {"losses": self._take_noted()}

    def _take_noted(self) -> Tensor:
        self._note()
        return torch.cat([torch.empty(0), *(found.cpu() for found in self._losses)])

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._waiting.clear()
        self._losses = [state["losses"].clone()]


def compute_mixture_gap(losses: Floats) -> float | None:
    """Return the distance of the means of a mixture of two Gaussians, in the units of the losses.

    Args:
        losses: finite, one per sample.

    Returns:
        None if there are not two different ones.

    Example:
        >>> round(compute_mixture_gap(np.array([0.0, 0.1, 0.2, 3.0, 3.1, 3.2])), 3)
        3.0
    """
    spread = float(np.ptp(losses)) if len(losses) else 0.0
    if not spread > 0:
        return None
    scaled = (losses - losses.min()) / spread
    return spread * float(np.ptp(_fit_means(scaled, split_by_two_means(scaled))))


def split_by_two_means(values: Floats) -> NDArray[np.bool_]:
    """Return which numbers are in the higher of two clusters (2-means, exactly)."""
    order = np.sort(values)
    count = np.arange(1, len(order))
    below = np.cumsum(order)[:-1]
    between = below**2 / count + (order.sum() - below) ** 2 / (len(order) - count)
    is_high: NDArray[np.bool_] = values > order[int(between.argmax())]
    return is_high


def _fit_means(values: Floats, is_high: NDArray[np.bool_]) -> Floats:
    """Return the means after a few rounds of EM that begin with a split."""
    shares = np.stack([~is_high, is_high]).astype(np.float64)
    likelihood = -np.inf
    for _ in range(_ROUNDS):
        before = likelihood
        weights, means = _fit_weights_and_means(values, shares)
        distances = (values - means[:, None]) ** 2
        variances = (shares * distances).sum(1) / weights + _LEAST_VARIANCE
        heights = weights / weights.sum() / np.sqrt(2 * np.pi * variances)
        logs = np.log(heights)[:, None] - distances / (2 * variances)[:, None]
        total = np.logaddexp(logs[0], logs[1])
        shares, likelihood = np.exp(logs - total), float(total.mean())
        if abs(likelihood - before) < _TOLERANCE:
            break
    return _fit_weights_and_means(values, shares)[1]


def _fit_weights_and_means(values: Floats, shares: Floats) -> tuple[Floats, Floats]:
    weights = shares.sum(1) + 10 * np.finfo(np.float64).eps  # a component may be empty
    return weights, shares @ values / weights


SIGNAL = Selc
