"""Names for runs without a user's name, made of the settings in which the runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rote.store.nested_tables import flatten_tables

if TYPE_CHECKING:
    from rote.store.table import FoundRun

NAMED_BY_LOGGER = "named_by_logger"
"""The key that marks a name as made by the logger, not chosen by the user."""


def name_by_settings(found: Sequence[FoundRun]) -> list[FoundRun]:
    """Name runs that a logger named (``welcoming-snake-32``) by their settings (``lr 0.02``).

    Args:
        found: all runs of a source.

    Returns:
        The same runs. If the settings do not tell all of them apart, the names stay.
    """
    settings = [_collect_settings(run.description) for run in found]
    names = sorted({name for told in settings for name in told})
    differing = [n for n in names if len({told.get(n) for told in settings}) > 1]
    short = {n: n.rpartition(".")[2] for n in differing}
    labels = [
        ", ".join(f"{short[n]} {told[n]}" for n in differing if n in told) for told in settings
    ]
    is_unique = len(set(labels)) == len(labels)
    return [
        replace(run, name=label)
        if label and is_unique and run.description.get(NAMED_BY_LOGGER)
        else run
        for run, label in zip(found, labels, strict=True)
    ]


def _collect_settings(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the user's settings: their own parameters, otherwise model, optimizer and seed."""
    own = description.get("params")
    chosen = own or {key: description.get(key) for key in ("model", "optimizer", "seed")}
    return {
        name: str(value)
        for name, value in flatten_tables(chosen)
        if value is not None and value != {}
    }
