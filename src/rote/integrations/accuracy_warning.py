"""What to tell people whose training accuracy is not, or not as they said, with the readings."""

import warnings
from collections.abc import Iterable

from rote.errors import RoteWarning

DEFAULT_METRIC = "train_accuracy"
"""The name that is looked for if nobody named one."""

_OWN = ("epoch", "step", "susceptibility", "susceptibility_plain", "probe/drop")


def warn_of_accuracy(
    name: str | None, logged: Iterable[str], *, samples: int, is_measured: bool
) -> None:
    """Say so if the training accuracy is not what the user may think.

    Args:
        name: the metric that was looked for and not found; ``None`` if none was.
        logged: the metrics that there were; if the one that was looked for is among them, it came
            at another time, and nothing is said.
        samples: on how many samples the accuracy was to be measured instead; 0: on none.
        is_measured: whether it was.
    """
    seen = list(dict.fromkeys(logged))
    is_odd = name != DEFAULT_METRIC or (samples > 0 and not is_measured)
    if name is None or name in seen or not is_odd:
        return
    outcome = (
        f"It is measured instead, on {samples} training samples or fewer"
        if is_measured
        else "The readings have no training accuracy, which a stop rule and most rules of "
        "`rote select` need"
    )
    names = ", ".join(f"`{entry}`" for entry in seen if entry not in _OWN)
    warnings.warn(
        f"Expected the metric `{name}` to be logged before the first probe, got "
        f"{names or 'no metric'}. {outcome}. Log it, name another with `train_accuracy=`, or pass "
        "None to look for none.",
        RoteWarning,
        stacklevel=4,
    )
