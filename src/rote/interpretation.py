"""What readings mean in words: events during a run, and how high ζ is at one of its steps.

Tracking, selection and the page all take their sentences about ζ, stalled validation accuracy and
memorized labels from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

from rote.formatting import format_share
from rote.records import Reading

PATIENCE = 5
"""Readings without a better noisy validation accuracy before a note says so."""

HIGH_ACCURACY = 0.5
"""The training accuracy above which ζ is informative: an untrained network has a low ζ as well."""

RELATIVE_ZETAS = ("susceptibility_plain_relative", "susceptibility_relative")
"""ζ as a share of the loss, which needs no scale; the reference step comes first, because it does
not shrink with the learning rate."""

_READINGS_IN_A_ROW = 2  # that must show a rise of ζ
_MEMORIZED = 0.99


@dataclass(frozen=True)
class Watch:
    """What must be remembered of the readings so far to notice the next event.

    Attributes:
        noted: the kinds of notes that were made; each is made once.
        lowest: the lowest ζ, and its step.
        doubled: for how many readings in a row ζ was at least twice the lowest.
        best: the best noisy validation accuracy, its step, and the training accuracy there.
        waited: the number of readings since then.
    """

    noted: frozenset[str] = frozenset()
    lowest: tuple[float, int] = (inf, 0)
    doubled: int = 0
    best: tuple[float, int, float] = (-inf, 0, inf)
    waited: int = 0

    def observe(self, reading: Reading, noise_rate: float | None = None) -> tuple[Watch, str]:
        """Take in the next reading.

        Args:
            reading: the next one.
            noise_rate: the share of wrong labels, if it is known.

        Returns:
            The watch to continue with, and a note on this reading; mostly empty.
        """
        seen = self._follow_zeta(reading)._follow_validation(reading)
        notes = {
            kind: sentence
            for kind, sentence in (
                ("memorization", seen._describe_memorization(reading, noise_rate)),
                ("validation", seen._describe_stalled_validation(reading)),
                ("memorized", _describe_memorized(reading)),
            )
            if sentence and kind not in self.noted
        }
        return replace(seen, noted=self.noted | notes.keys()), " ".join(notes.values())

    def observe_all(self, readings: Iterable[Reading], noise_rate: float | None) -> Watch:
        """Take in several readings whose notes were made before."""
        watch = self
        for reading in readings:
            watch, _ = watch.observe(reading, noise_rate)
        return watch

    def _follow_zeta(self, reading: Reading) -> Watch:
        """Follow ζ of the reference step where it is known: live ζ falls with the learning rate.

        ζ also doubles while a network learns its first correct labels. So it counts only where
        training accuracy is high, or unknown.
        """
        plain = reading.susceptibility_plain
        zeta = reading.susceptibility if plain is None else plain
        is_low = reading.metrics.get("train_accuracy", HIGH_ACCURACY) < HIGH_ACCURACY
        if not zeta > 0 or is_low:  # NaN is not above 0
            return replace(self, doubled=0)
        if zeta < self.lowest[0]:
            return replace(self, lowest=(zeta, reading.step), doubled=0)
        return replace(self, doubled=self.doubled + 1 if zeta >= 2 * self.lowest[0] else 0)

    def _follow_validation(self, reading: Reading) -> Watch:
        accuracy = reading.validation_accuracy
        if accuracy is None:
            return self
        if accuracy > self.best[0]:
            trained = reading.metrics.get("train_accuracy", inf)
            return replace(self, best=(accuracy, reading.step, trained), waited=0)
        return replace(self, waited=self.waited + 1)

    def _describe_memorization(self, reading: Reading, noise_rate: float | None) -> str:
        """Describe where memorization begins: by the known noise rate, or else by ζ."""
        accuracy = reading.metrics.get("train_accuracy")
        if noise_rate and accuracy is not None:
            if not accuracy >= 1 - noise_rate:
                return ""
            return (
                f"Training accuracy ({format_share(accuracy, 1)}) has passed the share of correct "
                f"labels ({format_share(1 - noise_rate, 1)}): memorization begins here."
            )
        if self.doubled < _READINGS_IN_A_ROW:
            return ""
        rise = f"ζ has doubled since step {self.lowest[1]}"
        if accuracy is None:
            return f"{rise}. If training accuracy is high by now, memorization has begun."
        return f"{rise}: memorization has probably begun."

    def _describe_stalled_validation(self, reading: Reading) -> str:
        best, step, trained_then = self.best
        trained = reading.metrics.get("train_accuracy", -inf)
        if self.waited < PATIENCE or not trained > trained_then:
            return ""
        return (
            f"Noisy validation accuracy has not improved for {self.waited} readings "
            f"({format_share(best, 1)} at step {step}), while training accuracy rose from "
            f"{format_share(trained_then, 1)} to {format_share(trained, 1)}."
        )


def _describe_memorized(reading: Reading) -> str:
    accuracy = reading.metrics.get("train_accuracy", -inf)
    if not accuracy >= _MEMORIZED:
        return ""
    return (
        f"Training accuracy is {format_share(accuracy, 1)}: any label errors are memorized by now."
    )


def find_notes(readings: Iterable[Reading], noise_rate: float | None = None) -> dict[int, str]:
    """Describe the events of a run, each kind at most once and from earlier readings alone.

    At most one note says where memorization begins: by the known noise rate, or else by ζ.

    Args:
        readings: all of the run, in order.
        noise_rate: the share of wrong labels, if it is known.

    Returns:
        Notes by the step at which the event was noticed.

    Example:
        >>> zetas = [0.02, 0.01, 0.03, 0.04]
        >>> known = {"train_accuracy": 0.6}
        >>> find_notes(
        ...     Reading(step, 2.0, 2.0, 0.0, zeta, 0.0, metrics=known)
        ...     for step, zeta in enumerate(zetas, 1)
        ... )
        {4: 'ζ has doubled since step 2: memorization has probably begun.'}
    """
    watch, found = Watch(), {}
    for reading in readings:
        watch, note = watch.observe(reading, noise_rate)
        if note:
            found[reading.step] = note
    return found


def explain_susceptibility(
    readings: Sequence[Reading], start: Mapping[str, float] | None = None
) -> str:
    """Explain how high the last ζ of a run is, beside its minimum and the untrained network.

    The minimum is taken over readings with a training accuracy of 50 % or more, where it is known:
    a network that has learned nothing yet has a low ζ as well.

    Args:
        readings: all of the run, in order.
        start: ζ of the untrained network, by column.

    Returns:
        A clause without a period; empty if the last reading has no finite ζ.

    Example:
        >>> zetas = [0.004, 0.002, 0.006]
        >>> readings = [Reading(n, 2.0, 2.0, 0.0, 0.01, z) for n, z in enumerate(zetas, 1)]
        >>> explain_susceptibility(readings).partition(" (")[0]
        'one step on random labels lowers their loss by 0.60% on average'
        >>> explain_susceptibility(readings, {"susceptibility_relative": 0.003}).partition(" (")[2]
        "3.0× this run's minimum at step 2, 2.0× the untrained network)"
    """
    if not readings:
        return ""
    of_last = (name for name in RELATIVE_ZETAS if getattr(readings[-1], name) is not None)
    column = next(of_last, RELATIVE_ZETAS[1])
    now = getattr(readings[-1], column)
    if not isfinite(now):
        return ""
    comparisons = []
    known = [(zeta, step) for zeta, step in _find_informative(readings, column) if isfinite(zeta)]
    if len(known) > 1:
        lowest, step = min(known)
        at_minimum = "this run's minimum"
        if step != readings[-1].step:
            at_minimum = f"{_compare(now, lowest)} {at_minimum} at step {step}"
        comparisons.append(at_minimum)
    untrained = (start or {}).get(column)
    if untrained is not None:
        comparisons.append(f"{_compare(now, untrained)} the untrained network")
    kind = "reference step" if column == RELATIVE_ZETAS[0] else "step"
    level = f"one {kind} on random labels lowers their loss by {format_share(now)} on average"
    return level + (f" ({', '.join(comparisons)})" if comparisons else "")


def _find_informative(readings: Iterable[Reading], column: str) -> Iterator[tuple[float, int]]:
    """Yield ζ and step of the readings at which the network has learned something."""
    for reading in readings:
        zeta = getattr(reading, column)
        trained = reading.metrics.get("train_accuracy", HIGH_ACCURACY)
        if zeta is not None and not trained < HIGH_ACCURACY:
            yield zeta, reading.step


def _compare(now: float, other: float) -> str:
    """Return how many times the other it is; the other itself where one is not positive."""
    return f"{now / other:.1f}×" if now > 0 and other > 0 else f"{format_share(other)} for"


def read_start(description: Mapping[str, Any]) -> dict[str, float]:
    """Read ζ of a run's untrained network, by column, as far as ``run.json`` has it.

    Args:
        description: the content of ``run.json``.

    Returns:
        ζ by the name of its column; empty if it was not measured.

    Example:
        >>> read_start({"start": {"susceptibility": 0.02}})
        {'susceptibility': 0.02}
    """
    recorded = description.get("start")
    known = recorded.items() if isinstance(recorded, Mapping) else ()
    return {name: float(value) for name, value in known if isinstance(value, int | float)}
