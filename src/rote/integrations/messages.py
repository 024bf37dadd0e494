"""What callbacks tell people: warnings, on the first rank only, and the verdict at the end."""

import warnings
from collections.abc import Iterable, Sequence

from rote.errors import RoteWarning
from rote.probe import is_first_rank
from rote.records import Reading
from rote.selection import Selection
from rote.tracking import StopRule

DEFAULT_METRIC = "train_accuracy"
"""The name that is looked for if nobody named one."""

_OWN = ("epoch", "step", "susceptibility", "susceptibility_plain", "probe/drop")


def warn(message: str) -> None:
    """Say something that the user should act upon."""
    if is_first_rank():
        warnings.warn(message, RoteWarning, stacklevel=5)


def warn_of_accuracy(
    name: str | None, seen: Iterable[str], *, samples: int, is_measured: bool
) -> None:
    """Say so if the training accuracy is not what the user may think.

    Args:
        name: the metric that was looked for and not found; ``None`` if none was.
        seen: the metrics that there were; if the one that was looked for is among them, it came
            at another time, and nothing is said.
        samples: on how many samples the accuracy was to be measured instead; 0: on none.
        is_measured: whether it was.
    """
    names = list(seen)
    is_odd = name != DEFAULT_METRIC or (samples > 0 and not is_measured)
    if name is None or name in names or not is_odd:
        return
    outcome = (
        f"It is measured instead, on {samples} training samples or fewer"
        if is_measured
        else "The readings have no training accuracy, which a stop rule and most rules of "
        "`rote select` need"
    )
    warn(
        f"Expected the metric `{name}` to be logged before the first probe, got {listed(names)}. "
        f"{outcome}. Log it, name another with `train_accuracy=`, or pass None to look for none."
    )


def warn_of_uncounted(stop: StopRule | None, readings: Sequence[Reading]) -> None:
    """Say so if training has ended and no reading was high and late enough to count."""
    if stop is None or stop.keep is not None or not readings:
        return
    known = [reading.metrics.get("train_accuracy") for reading in readings]
    highest = max((accuracy for accuracy in known if accuracy is not None), default=None)
    told = "none was known" if highest is None else f"the highest was {highest:.3g}"
    warn(
        f"`stop` counted none of the {len(readings)} readings, so there is no checkpoint to keep. "
        f"It counts those with a training accuracy of {stop.train_accuracy:g} or more ({told}), "
        f"from step {stop.min_epochs} on (the last was {readings[-1].step}). Train longer, or "
        "lower `train_accuracy` or `min_epochs` of the rule."
    )


def listed(names: Iterable[str]) -> str:
    """Names of metrics for a message, each once, without the callbacks' own."""
    shown = dict.fromkeys(name for name in names if name not in _OWN)
    return ", ".join(f"`{name}`" for name in shown) or "no metric"


def verdict_text(selection: Selection, checkpoint: str | None, stop: StopRule | None = None) -> str:
    """The checkpoint to keep in one sentence, and where to read more.

    Args:
        selection: the verdict.
        checkpoint: the file of the pick, if there is one.
        stop: the rule that has watched the training; where it kept another, that is explained.
    """
    pick = selection.pick
    known = {"ζ": pick.susceptibility, "training accuracy": pick.train_accuracy}
    values = ", ".join(f"{name} {value:.4g}" for name, value in known.items() if value is not None)
    place = f", {checkpoint}" if checkpoint else ""
    rate = None if stop is None else stop.noise_rate
    told = "" if rate is None else f" --noise-rate {rate:g}"
    text = (
        f"Keep step {pick.step}{place} ({values}), says rule `{selection.rule}`. "
        f"`rote select {pick.path}{told}` says why."
    )
    if stop is None or stop.keep in (None, pick.step):
        return text
    return f"{text} `stop`, which had to decide on the way and knew less, kept step {stop.keep}."
