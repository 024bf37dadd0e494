"""The settings of a run: its spec if it has one, otherwise what ``run.json`` describes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rote.store import leaves

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates

_NOT_CHOSEN = {"schema", "command", "columns", "rows", "start", "checksums"}
_TOLD_ELSEWHERE = {"name", "created", "versions", *_NOT_CHOSEN}
_TOO_LONG = {"labels.values", "holdout.hash", "given_labels"}
_MOST_SPECS = 200  # to read for their schedules
_LETTERS = 12  # of a hash: enough to tell two apart


def settings_of(description: Mapping[str, Any], workload: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a run as text, by name, with dots between section and field."""
    spec = workload.get("spec")
    source = spec if isinstance(spec, dict) else description
    found = flat({name: value for name, value in source.items() if name not in _TOLD_ELSEWHERE})
    return {name: value for name, value in found.items() if name not in _TOO_LONG}


def facts_of(description: Mapping[str, Any], workload: Mapping[str, Any]) -> dict[str, str]:
    """Everything that a run says of itself as text: what runs can be chosen by.

    ``run.json``, the description of the data under ``data``, and the spec, which wins. Of labels
    and holdouts there are the first letters of a hash.
    """
    data, spec = workload.get("data"), workload.get("spec")
    told = flat({name: value for name, value in description.items() if name not in _NOT_CHOSEN})
    told |= flat({"data": data} if isinstance(data, dict) else {})
    told |= flat(spec if isinstance(spec, dict) else {})
    told.pop("labels.values", None)
    if "given_labels" in told:
        told["given_labels"] = hashlib.sha256(told["given_labels"].encode()).hexdigest()
    for name in {"given_labels", "holdout.hash"} & told.keys():
        told[name] = told[name][:_LETTERS]
    return told


def flat(values: Mapping[str, Any]) -> dict[str, str]:
    """Nested values as text, under one name each; what is not set is left out.

    Example:
        >>> flat({"optimizer": {"lr": 0.1, "betas": [0.9, 0.99]}, "seed": 0, "holdout": None})
        {'optimizer.lr': '0.1', 'optimizer.betas': '0.9, 0.99', 'seed': '0'}
    """
    known = ((name, value) for name, value in leaves(values) if value is not None)
    return {name: plain_text(value) for name, value in known if value != {}}


def plain_text(value: object) -> str:
    """One value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(plain_text(entry) for entry in value)
    return str(value)


def find_step_differences(candidates: Candidates) -> tuple[str, ...]:
    """Return in which settings that scale a training step the runs differ, in words.

    Args:
        candidates: checkpoints of several runs.

    Returns:
        Of ``learning rate``, ``optimizer`` and ``schedule``, those with more than one value. What
        a run does not record differs from nothing.
    """
    table = candidates.table
    names = [candidates.runs[code] for code in sorted(set(candidates.run.tolist()))]
    values: dict[str, set[str]] = {"learning rate": set(), "optimizer": set(), "schedule": set()}
    for name in names:
        told = table.descriptions.get(name, {}).get("optimizer")
        if isinstance(told, Mapping):
            settings = told.get("settings")
            lr = settings.get("lr") if isinstance(settings, Mapping) else None
            values["optimizer"].add(str(told.get("class")))
            values["learning rate"] |= set() if lr is None else {plain_text(lr)}
        if len(names) <= _MOST_SPECS:
            spec = table.workload(name).get("spec")
            schedule = spec.get("schedule") if isinstance(spec, Mapping) else None
            values["schedule"] |= set() if schedule is None else {str(schedule)}
    return tuple(what for what, found in values.items() if len(found) > 1)
