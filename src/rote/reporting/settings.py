"""What a run was: its spec if it has one, otherwise what ``run.json`` describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rote.store import WORKLOAD_FILE, leaves

_TOLD_ELSEWHERE = {"schema", "name", "created", "command", "versions", "columns", "rows"}
_TOO_LONG = {"labels.values", "pool.hash"}


def read_workload(path: Path | None) -> Mapping[str, Any]:
    """What ``workload.json`` says; nothing if the run has none, or it cannot be read."""
    if path is not None:
        with suppress(OSError, ValueError):
            contents = json.loads((path / WORKLOAD_FILE).read_bytes())
            if isinstance(contents, dict):
                return contents
    return {}


def settings_of(description: Mapping[str, Any], workload: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a run as text, by name, with dots between section and field."""
    spec = workload.get("spec")
    source = spec if isinstance(spec, dict) else description
    found = flat({name: value for name, value in source.items() if name not in _TOLD_ELSEWHERE})
    return {name: value for name, value in found.items() if name not in _TOO_LONG}


def flat(values: Mapping[str, Any]) -> dict[str, str]:
    """Nested values as text, under one name each; what is not set is left out.

    Example:
        >>> flat({"optimizer": {"lr": 0.1, "betas": [0.9, 0.99]}, "seed": 0, "pool": None})
        {'optimizer.lr': '0.1', 'optimizer.betas': '0.9, 0.99', 'seed': '0'}
    """
    known = ((name, value) for name, value in leaves(values) if value is not None)
    return {name: as_text(value) for name, value in known if value != {}}


def as_text(value: object) -> str:
    """One value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(as_text(entry) for entry in value)
    return str(value)
