"""What to tell people whose stop rule never had a reading to go by."""

import warnings

from rote.errors import RoteWarning
from rote.tracking import StopRule, Tracker


def warn_of_uncounted(stop: StopRule | None, tracker: Tracker | None) -> None:
    """Say so if training has ended and no reading was high and late enough to count.

    Args:
        stop: the stop rule, if there is one.
        tracker: knows the readings of the run.
    """
    readings = [] if tracker is None else tracker.readings
    if stop is None or stop.keep is not None or not readings:
        return
    known = [reading.metrics.get("train_accuracy") for reading in readings]
    highest = max((accuracy for accuracy in known if accuracy is not None), default=None)
    seen = "none was known" if highest is None else f"the highest was {highest:.3g}"
    warnings.warn(
        f"`stop` counted none of the {len(readings)} readings, so there is no checkpoint to keep. "
        f"It counts those with a training accuracy of {stop.train_accuracy:g} or more ({seen}), "
        f"from step {stop.min_epochs} on (the last was {readings[-1].step}). Train longer, or "
        "lower `train_accuracy` or `min_epochs` of the rule.",
        RoteWarning,
        stacklevel=3,
    )
