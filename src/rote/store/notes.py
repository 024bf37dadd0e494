"""What happened in a run, in sentences: at most one of each kind, each from the past alone."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

from rote.records import Reading

PATIENCE = 5
"""Readings without a better noisy validation accuracy before that is said."""

_SURE = 2
"""Readings in a row that must show a rise of ζ."""

HIGH = 0.5
"""The training accuracy from which on ζ is watched."""

_ALL = 0.99


@dataclass(frozen=True)
class Watch:
    """What must be remembered of the readings so far to say what happens next.

    Attributes:
        said: the kinds of sentences that were said.
        lowest: the lowest ζ, and its step.
        doubled: how many readings in a row it was twice that.
        best: the best noisy validation accuracy, its step, and the training accuracy there.
        waited: how many readings since.
    """

    said: frozenset[str] = frozenset()
    lowest: tuple[float, int] = (inf, 0)
    doubled: int = 0
    best: tuple[float, int, float] = (-inf, 0, inf)
    waited: int = 0

    def after(self, reading: Reading, noise_rate: float | None = None) -> tuple["Watch", str]:
        """Take the next reading in.

        Args:
            reading: the next one.
            noise_rate: the share of wrong labels, if it is known.

        Returns:
            What to go on with, and what happened at this reading; mostly nothing.
        """
        seen = self._with_zeta(reading)._with_validation(reading)
        news = {
            kind: sentence
            for kind, sentence in (
                ("zeta", seen._zeta_doubled(reading)),
                ("validation", seen._validation_stands(reading)),
                ("noise rate", _right_labels_passed(reading, noise_rate)),
                ("all", _all_learned(reading)),
            )
            if sentence and kind not in self.said
        }
        said = self.said | news.keys()
        return replace(seen, said=said), " ".join(news.values())

    def after_all(self, readings: Iterable[Reading], noise_rate: float | None) -> "Watch":
        """Take several readings in, of which everything has been said."""
        watch = self
        for reading in readings:
            watch, _ = watch.after(reading, noise_rate)
        return watch

    def _with_zeta(self, reading: Reading) -> "Watch":
        """Go by the plain ζ where there is one: the live one falls with the learning rate.

        A network that learns its first right labels doubles its ζ, too: only where training
        accuracy is high, or unknown, does it count.
        """
        plain = reading.susceptibility_plain
        zeta = reading.susceptibility if plain is None else plain
        if not zeta > 0 or _accuracy(reading, HIGH) < HIGH:  # nor NaN
            return replace(self, doubled=0)
        if zeta < self.lowest[0]:
            return replace(self, lowest=(zeta, reading.step), doubled=0)
        return replace(self, doubled=self.doubled + 1 if zeta >= 2 * self.lowest[0] else 0)

    def _zeta_doubled(self, reading: Reading) -> str:
        if self.doubled < _SURE:
            return ""
        if "train_accuracy" in reading.metrics:
            meaning = ": memorization has probably begun"
        else:
            meaning = "; if training accuracy is high by now, memorization has begun"
        return f"ζ has doubled since step {self.lowest[1]}{meaning}."

    def _with_validation(self, reading: Reading) -> "Watch":
        accuracy = reading.validation_accuracy
        if accuracy is None:
            return self
        if accuracy > self.best[0]:
            trained = _accuracy(reading, inf)
            return replace(self, best=(accuracy, reading.step, trained), waited=0)
        return replace(self, waited=self.waited + 1)

    def _validation_stands(self, reading: Reading) -> str:
        best, step, trained_then = self.best
        trained = _accuracy(reading, -inf)
        if self.waited < PATIENCE or not trained > trained_then:
            return ""
        return (
            f"Noisy validation accuracy has not improved for {self.waited} readings ({best:.1%} at "
            f"step {step}) while training accuracy rose from {trained_then:.1%} to {trained:.1%}."
        )


def _accuracy(reading: Reading, if_unknown: float) -> float:
    return reading.metrics.get("train_accuracy", if_unknown)


def notes_of(readings: Iterable[Reading], noise_rate: float | None = None) -> dict[int, str]:
    """What happened in a run, by the step at which it was seen; four sentences at most.

    Args:
        readings: all of the run, in order.
        noise_rate: the share of wrong labels, if it is known.

    Example:
        >>> zetas = [0.02, 0.01, 0.03, 0.04]
        >>> known = {"train_accuracy": 0.6}
        >>> notes_of(
        ...     Reading(step, 2.0, 2.0, 0.0, zeta, 0.0, metrics=known)
        ...     for step, zeta in enumerate(zetas, 1)
        ... )
        {4: 'ζ has doubled since step 2: memorization has probably begun.'}
    """
    watch, found = Watch(), {}
    for reading in readings:
        watch, note = watch.after(reading, noise_rate)
        if note:
            found[reading.step] = note
    return found


def _right_labels_passed(reading: Reading, noise_rate: float | None) -> str:
    accuracy = _accuracy(reading, -inf)
    if not noise_rate or not accuracy >= 1 - noise_rate:
        return ""
    return (
        f"Training accuracy ({accuracy:.1%}) has passed the share of right labels "
        f"({1 - noise_rate:.1%}): from here on wrong labels are learned."
    )


def _all_learned(reading: Reading) -> str:
    accuracy = _accuracy(reading, -inf)
    if not accuracy >= _ALL:
        return ""
    return f"Training accuracy is {accuracy:.1%}: whichever labels are wrong, they are learned now."
