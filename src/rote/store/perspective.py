"""How high a ζ is: beside the run's own past, and beside the network before it was trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from rote.records import Reading
from rote.store.notes import HIGH

if TYPE_CHECKING:
    import polars as pl

_COLUMNS = ("susceptibility_plain_relative", "susceptibility_relative")
"""Shares of the loss, which need no scale; the plain step does not fall with the learning rate."""


def in_perspective(readings: Sequence[Reading], start: Mapping[str, float] | None = None) -> str:
    """What the last ζ of a run means; empty where it has none.

    The lowest is sought among readings with a training accuracy of 50 % or more, where it is known:
    a network that has learned nothing yet has a low ζ, too.

    Args:
        readings: all of the run, in order.
        start: what the network showed before it was trained, by column.

    Example:
        >>> zetas = [0.004, 0.002, 0.006]
        >>> readings = [Reading(n, 2.0, 2.0, 0.0, 0.01, z) for n, z in enumerate(zetas, 1)]
        >>> in_perspective(readings).partition(": ")[0]
        'a step takes on average 0.60% off the loss on random labels'
        >>> in_perspective(readings, {"susceptibility_relative": 0.003}).partition(": ")[2]
        '3.0 × its lowest (step 2), 2.0 × a fresh network'
    """
    if not readings:
        return ""
    column = next((c for c in _COLUMNS if getattr(readings[-1], c) is not None), _COLUMNS[1])
    now = getattr(readings[-1], column)
    if not isfinite(now):
        return ""
    beside = []
    known = [(value, step) for value, step in _past(readings, column) if isfinite(value)]
    if len(known) > 1:
        lowest, step = min(known)
        is_last = step == readings[-1].step
        beside.append(
            "its lowest so far"
            if is_last
            else f"{_ratio(now, lowest, 'at')} its lowest (step {step})"
        )
    fresh = (start or {}).get(column)
    if fresh is not None:
        beside.append(f"{_ratio(now, fresh, 'in')} a fresh network")
    kind = "plain step" if column == _COLUMNS[0] else "step"
    what = f"a {kind} takes on average {now:.2%} off the loss on random labels"
    return what + (f": {', '.join(beside)}" if beside else "")


def readings_up_to(frame: pl.DataFrame, run: str, step: int) -> list[Reading]:
    """What a table of checkpoints has of a run up to a step, as far as ``in_perspective`` asks."""
    import polars as pl

    names = [name for name in (*_COLUMNS, "train_accuracy") if name in frame.columns]
    rows = frame.filter((pl.col("run") == run) & (pl.col("step") <= step)).select("step", *names)
    return [_reading(row) for row in rows.sort("step").to_dicts()]


def _reading(row: dict[str, Any]) -> Reading:
    plain, live = (row.get(name) for name in _COLUMNS)
    trained = row.get("train_accuracy")
    return Reading(
        step=row["step"],
        loss_before=nan,
        loss_after=nan,
        drop=nan,
        susceptibility=nan,
        susceptibility_relative=nan if live is None else live,
        susceptibility_plain_relative=plain,
        metrics={} if trained is None else {"train_accuracy": trained},
    )


def _past(readings: Iterable[Reading], column: str) -> Iterator[tuple[float, int]]:
    """ζ and step of the readings that tell: a network that has learned nothing yet does not."""
    for reading in readings:
        value = getattr(reading, column)
        if value is not None and not reading.metrics.get("train_accuracy", HIGH) < HIGH:
            yield value, reading.step


def start_of(description: Mapping[str, Any]) -> dict[str, float]:
    """What a run's network showed before it was trained, by column, as far as ``run.json`` says."""
    told = description.get("start")
    known = told.items() if isinstance(told, Mapping) else ()
    return {name: float(value) for name, value in known if isinstance(value, int | float)}


def _ratio(now: float, other: float, where: str) -> str:
    """How many times; where one of them is not above 0, the other itself."""
    return f"{now / other:.1f} ×" if now > 0 and other > 0 else f"{other:.2%} {where}"
