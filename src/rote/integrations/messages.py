"""What callbacks tell: warnings, on the first rank only, what is logged, the verdict at the end."""

import warnings
from collections.abc import Iterable, Sequence

from rote.errors import RoteWarning
from rote.probe import is_first_rank
from rote.records import Reading
from rote.selection import Selection
from rote.tracking import StopRule

_OWN = ("epoch", "step", "susceptibility", "susceptibility_plain", "probe/drop")


def warn(message: str) -> None:
    """Say something that the user should act upon."""
    if is_first_rank():
        warnings.warn(message, RoteWarning, stacklevel=5)


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


def logged_of(reading: Reading | None) -> dict[str, float]:
    """Return what a callback hands to the logger of its trainer, if there is a reading."""
    if reading is None:
        return {}
    found = {
        "susceptibility": reading.susceptibility,
        "susceptibility_plain": reading.susceptibility_plain,
        "probe/drop": reading.drop,
    }
    return {name: value for name, value in found.items() if value is not None}


def listed(names: Iterable[str]) -> str:
    """Names of metrics for a message, each once, without the callbacks' own."""
    shown = dict.fromkeys(name for name in names if name not in _OWN)
    return ", ".join(f"`{name}`" for name in shown) or "no metric"


def verdict_text(selection: Selection, checkpoint: str | None, stop: StopRule | None = None) -> str:
    """Return the checkpoint to keep in one sentence, and where to read more.

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
