"""Within a run: the last checkpoint before ζ rises sharply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.arguments import check_number
from rote.selection.rule import Decision

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats, Integers

_FEWEST = 5
_ROUNDING = 1e-9
_LEAST_RISE = 0.1
_BLOCK = 1 << 18
"""The number of checkpoints processed together: fast, and small compared with the table."""


@dataclass(frozen=True)
class BeforeRise:
    """Where a broken line through ζ bends upwards.

    For every inner checkpoint s, ζ ≈ a + b·step + c·max(0, step − s) is fitted by least squares; of
    those that are steeper after s than before (c > 0), the best fit is the bend. It is a sharp rise
    if the line rises after s by at least a tenth of the range of ζ, and the bend removes at least
    ``sharpness`` of the squared error of a straight line. Without one, ζ speaks against no
    checkpoint, and the last one stays.

    Of several runs, the checkpoint before the bend is found in each, and the one with the highest
    training accuracy wins (the lowest ζ, where no training accuracy is known).

    Attributes:
        sharpness: from 0 (any bend) to 1 (only a perfect one).

    Raises:
        InputError: if it is not.
    """

    sharpness: float = 0.5
    name: ClassVar[str] = "before-rise"
    needs: ClassVar[tuple[str, ...]] = ("zeta",)
    compares_runs: ClassVar[bool] = False
    order: ClassVar[int] = 400

    def __post_init__(self) -> None:
        check_number("sharpness", self.sharpness, least=0, most=1)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the checkpoint at the bend."""
        parts = list(candidates.by_run())
        starts, ends = (np.array([getattr(p, at) for p in parts]) for at in ("start", "stop"))
        bends = _find_bends_of_runs(candidates, starts, ends - starts, self.sharpness)
        kept = np.where(bends < 0, ends - 1, starts + bends)
        pick = candidates.best(candidates.values("train_accuracy"), kept)
        found = bends[np.flatnonzero(kept == pick)[0]]
        reasons = [
            f"{candidates.label} rises sharply after {candidates.name(pick)}: the broken line that "
            "bends there fits far better than a straight one."
            if found >= 0
            else f"{candidates.label} does not rise sharply in this run, so its last checkpoint is "
            f"selected: {candidates.name(pick)}."
        ]
        if len(parts) > 1:
            reasons.append(
                f"ζ rises sharply in {(bends >= 0).sum()} of {len(parts)} runs. Of the "
                "checkpoints before, the selected one has the highest training accuracy."
            )
        return Decision(pick, tuple(reasons), warnings=_list_warnings(parts))


def find_bend(step: Floats, zeta: Floats, sharpness: float) -> int | None:
    """Return the position of the checkpoint at which ζ bends upwards, None if it does not.

    Args:
        step: increasing.
        zeta: ζ after each.
        sharpness: which share of the straight line's squared error the broken line must remove.
    """
    found = int(_find_bends(step[None], zeta[None], sharpness)[0]) if len(step) >= _FEWEST else -1
    return None if found < 0 else found


def _find_bends_of_runs(
    candidates: Candidates, starts: Integers, lengths: Integers, sharpness: float
) -> Integers:
    """Return the bend of every run, -1 where there is none; runs of one length at a time."""
    found = np.full(len(starts), -1)
    for length in np.unique(lengths[lengths >= _FEWEST]).tolist():
        alike = np.flatnonzero(lengths == length)
        for block in np.array_split(alike, -(-len(alike) * length // _BLOCK)):
            rows = starts[block][:, None] + np.arange(length)
            step, zeta = candidates.step[rows].astype(np.float64), candidates.zeta[rows]
            found[block] = _find_bends(step, zeta, sharpness)
    return found


# A run whose steps or ζ are all equal, or too large to square, has no bend: its sums are NaN.
@np.errstate(invalid="ignore", divide="ignore", over="ignore")
def _find_bends(step: Floats, zeta: Floats, sharpness: float) -> Integers:
    """``find_bend`` of every row at once, -1 where there is none."""
    x = _center((step - step[:, :1]) / (step[:, -1:] - step[:, :1]))
    y = _center((zeta - zeta.min(axis=1, keepdims=True)) / np.ptp(zeta, axis=1, keepdims=True))
    xx = _compute_total(x * x)
    slope = _compute_total(x * y) / xx
    residual = y - slope * x
    error = _compute_total(residual * residual)[:, 0]
    # The ramp max(0, x − s) without its part along 1 and x, for every s from sums over x > s.
    length = x.shape[1]
    count = np.arange(length - 1, -1, -1.0)
    sum_x, sum_xx = _sum_after(x), _sum_after(x * x)
    total = sum_x - count * x
    along = (sum_xx - x * sum_x) / xx
    square = sum_xx - 2 * x * sum_x + count * x * x
    square -= total**2 / length + along**2 * xx
    inner = np.s_[:, 1 : length - 2]
    kinks = (_sum_after(residual * x) - x * _sum_after(residual))[inner] / square[inner]
    gains = np.where(kinks > 0, kinks**2 * square[inner], -1.0)
    rows, found = np.arange(len(x)), gains.argmax(axis=1)
    kink, gain, at = kinks[rows, found], gains[rows, found], found + 1
    rise = (slope[:, 0] + kink * (1 - along[rows, at])) * (x[:, -1] - x[rows, at])
    is_sharp = (kink > 0) & (gain >= np.maximum(sharpness * error, _ROUNDING))
    return np.where(is_sharp & (rise >= _LEAST_RISE) & (error > _ROUNDING), at, -1)


def _center(values: Floats) -> Floats:
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def _compute_total(values: Floats) -> Floats:
    return np.asarray(values.sum(axis=1, keepdims=True))


def _sum_after(values: Floats) -> Floats:
    """Return the sum of everything behind each position of a row."""
    return np.asarray(values[:, ::-1].cumsum(axis=1)[:, ::-1] - values)


def _list_warnings(parts: list[slice]) -> tuple[str, ...]:
    short = sum(part.stop - part.start < _FEWEST for part in parts)
    if not short:
        return ()
    found = f"{short} of {len(parts)} runs have" if len(parts) > 1 else "The run has"
    return (
        f"{found} fewer than {_FEWEST} checkpoints, too few to detect a rise: the last is taken.",
    )
