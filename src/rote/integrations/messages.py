"""Messages of the callbacks: warnings on the first rank, names of metrics, the verdict."""

import warnings
from collections.abc import Iterable, Sequence

from rote.errors import RoteWarning
from rote.probe import is_first_rank
from rote.records import Reading
from rote.selection import Selection
from rote.tracking import StopRule

_OWN = ("epoch", "step", "susceptibility", "susceptibility_plain", "probe/drop")


def warn(message: str) -> None:
    """Warn the user, on the first rank only."""
    if is_first_rank():
        warnings.warn(message, RoteWarning, stacklevel=5)


def warn_of_uncounted(stop: StopRule | None, readings: Sequence[Reading]) -> None:
    """Warn if training has ended and the stop rule has counted no reading."""
    if stop is None or stop.keep is not None or not readings:
        return
    known = [reading.metrics.get("train_accuracy") for reading in readings]
    highest = max((accuracy for accuracy in known if accuracy is not None), default=None)
    found = "none was known" if highest is None else f"the highest was {highest:.3g}"
    warn(
        f"`stop` counted none of the {len(readings)} readings, so there is no checkpoint to keep. "
        f"It counts those with a training accuracy of {stop.train_accuracy:g} or more ({found}), "
        f"from step {stop.min_epochs} on (the last was {readings[-1].step}). Train longer, or "
        "lower `train_accuracy` or `min_epochs` of the rule."
    )


def select_logged(reading: Reading | None) -> dict[str, float]:
    """Return the values that a callback logs with its trainer; empty without a reading."""
    if reading is None:
        return {}
    found = {
        "susceptibility": reading.susceptibility,
        "susceptibility_plain": reading.susceptibility_plain,
        "probe/drop": reading.drop,
    }
    return {name: value for name, value in found.items() if value is not None}


def list_names(names: Iterable[str]) -> str:
    """List names of metrics for a message, each once, without the callbacks' own."""
    shown = dict.fromkeys(name for name in names if name not in _OWN)
    return ", ".join(f"`{name}`" for name in shown) or "no metric"


def write_verdict(selection: Selection, holdout_hint: str, stop: StopRule | None = None) -> str:
    """Return the verdict, and what the stop rule kept if that is another checkpoint.

    Args:
        selection: The verdict.
        holdout_hint: How this trainer's callback gets better evidence.
        stop: The rule that has watched the training.
    """
    text = selection.summarize(holdout_hint).text
    if stop is None or stop.keep in (None, selection.pick.step):
        return text
    return f"{text}\nThe stop rule, which decides during training, kept step {stop.keep}."
