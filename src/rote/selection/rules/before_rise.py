"""Within a run: the last checkpoint before ζ rises sharply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.arguments import check_number
from rote.selection.rule import Verdict

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats

_FEWEST = 5
_ROUNDING = 1e-9
_LEAST_RISE = 0.1


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

    def judge(self, candidates: Candidates) -> Verdict:
        """The checkpoint at the bend."""
        parts = list(candidates.by_run())
        steps = candidates.step.astype(np.float64)
        bends = [bend(steps[part], candidates.zeta[part], self.sharpness) for part in parts]
        kept = [
            part.stop - 1 if found is None else part.start + found
            for part, found in zip(parts, bends, strict=True)
        ]
        pick = candidates.best(candidates.values("train_accuracy"), np.array(kept))
        found = bends[kept.index(pick)]
        reasons = [
            f"{candidates.label} rises sharply after {candidates.name(pick)}: the broken line that "
            "bends there fits far better than a straight one."
            if found is not None
            else f"{candidates.label} does not rise sharply in the run of the pick, "
            f"{candidates.name(pick)}; its last checkpoint stays."
        ]
        if len(parts) > 1:
            reasons.append(
                f"ζ rises sharply in {sum(b is not None for b in bends)} of {len(parts)} runs; of "
                "the checkpoints before, the pick has the highest training accuracy."
            )
        return Verdict(pick, tuple(reasons), warnings=_warnings(parts))


def bend(step: Floats, zeta: Floats, sharpness: float) -> int | None:
    """The position of the checkpoint at which ζ bends upwards, None if it does not.

    Args:
        step: increasing.
        zeta: ζ after each.
        sharpness: which share of the straight line's squared error the broken line must remove.
    """
    if len(step) < _FEWEST or np.ptp(zeta) == 0:
        return None
    x = (step - step[0]) / (step[-1] - step[0])
    y = (zeta - zeta.min()) / np.ptp(zeta)
    x, y = x - x.mean(), y - y.mean()
    slope = (x @ y) / (x @ x)
    residual = y - slope * x
    error = residual @ residual
    if error <= _ROUNDING:
        return None
    # The ramp max(0, x − s) without its part along 1 and x, for every s from sums over x > s.
    count = np.arange(len(x) - 1, -1, -1.0)
    sum_x, sum_xx = _after(x), _after(x * x)
    total = sum_x - count * x
    along = (sum_xx - x * sum_x) / (x @ x)
    square = sum_xx - 2 * x * sum_x + count * x * x
    square -= total**2 / len(x) + along**2 * (x @ x)
    inner = np.arange(1, len(x) - 2)
    kink = (_after(residual * x) - x * _after(residual))[inner] / square[inner]
    gain = kink**2 * square[inner]
    found = int(np.where(kink > 0, gain, -1.0).argmax())
    rise = (slope + kink[found] * (1 - along[inner[found]])) * (x[-1] - x[inner[found]])
    is_sharp = kink[found] > 0 and gain[found] >= max(sharpness * error, _ROUNDING)
    return int(inner[found]) if is_sharp and rise >= _LEAST_RISE else None


def _after(values: Floats) -> Floats:
    """The sum of everything behind each position."""
    return np.asarray(values[::-1].cumsum()[::-1] - values)


def _warnings(parts: list[slice]) -> tuple[str, ...]:
    short = sum(part.stop - part.start < _FEWEST for part in parts)
    if not short:
        return ()
    found = f"{short} of {len(parts)} runs have" if len(parts) > 1 else "The run has"
    return (
        f"{found} fewer than {_FEWEST} checkpoints: too few to see a rise, so that the last stays.",
    )
