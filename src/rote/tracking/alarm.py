"""What to tell people about a reading with a flag."""

from rote.errors import (
    DominatedMeanWarning,
    ExplodingReadingWarning,
    NonFiniteReadingWarning,
    RoteWarning,
)
from rote.records import Reading


def alarm(flag: str, reading: Reading, *, dominating_step: int) -> RoteWarning:
    """The warning that belongs to a flag.

    Args:
        flag: one of the reading's flags.
        reading: the reading.
        dominating_step: when the reading was taken that is the largest part of the mean.
    """
    is_plain = flag.endswith("_plain")
    zeta = "the plain ζ" if is_plain else "ζ"
    after = reading.loss_after_plain if is_plain else reading.loss_after
    if flag.startswith("non_finite"):
        return NonFiniteReadingWarning(
            f"The loss at step {reading.step} is not finite ({reading.loss_before} → {after}); "
            f"the reading is kept, and left out of {zeta}."
        )
    if flag.startswith("exploding"):
        drop = reading.drop_plain if is_plain else reading.drop
        return ExplodingReadingWarning(
            f"The loss at step {reading.step} changed by {drop:.4g} in one step; the run may be "
            "diverging. Compare runs by the relative susceptibility."
        )
    return DominatedMeanWarning(
        f"The reading at step {dominating_step} makes up more than half of {zeta}; read the "
        "relative susceptibility instead."
    )
