"""The data of the page: compact, packed, and the same for all of its charts."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.reporting.checkpoints import rounded

if TYPE_CHECKING:
    from rote.reporting.axis import Axis
    from rote.reporting.contents import Contents
    from rote.selection import RegionSummary, Selection
    from rote.selection.candidates import Booleans, Floats

MOST_COUNTED = 200_000
"""Checkpoints beyond which the page counts regions among those that it draws only."""


def counts_all(contents: Contents) -> bool:
    """Whether the page knows ζ and accuracies of every checkpoint, drawn or not."""
    return len(contents.candidates) <= MOST_COUNTED


def payload_of(contents: Contents) -> dict[str, Any]:
    """Everything that the scripts of the page work with, but the charts.

    ζ and training accuracy are whole steps of the grids of their axes, so that regions are
    counted exactly; a column that equals another is its name.

    Args:
        contents: what the page says.
    """
    candidates = contents.candidates
    presets = {
        outcome.rule: _preset(outcome.selection)
        for outcome in contents.outcomes.values()
        if outcome.selection is not None and contents.has_regions
    }
    return {
        "runs": list(candidates.runs),
        "columns": _columns(contents),
        "metrics": [[metric.field, metric.name] for metric in contents.checkpoints.metrics],
        "counted": _counted(contents),
        "axes": {"zeta": _axis(contents.zeta_axis), "train": _axis(contents.train_axis)},
        "presets": presets,
        "leading": contents.verdict.selection.rule,
        "total": len(candidates),
    }


def packed(payload: object) -> str:
    """Plain values as compressed JSON, in letters that end no script.

    Args:
        payload: what to pack.
    """
    text = json.dumps(payload, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _columns(contents: Contents) -> dict[str, Any]:
    checkpoints, candidates = contents.checkpoints, contents.candidates
    shown = candidates.take(checkpoints.positions)
    columns: dict[str, Any] = dict(checkpoints.columns)
    columns["run"] = shown.run.tolist()
    columns["zeta"] = _on_grid(contents.zeta_axis, shown.susceptibility)
    columns["train"] = _on_grid(contents.train_axis, shown.train_accuracy)
    for name in ("kept", "zeta_alone", "noisy_alone"):
        columns[name] = [None if value is None else int(value) for value in columns[name]]
    for name in ("test", "noisy"):
        same = [m.field for m in checkpoints.metrics if columns[m.field] == columns[name]]
        columns[name] = same[0] if same else columns[name]
    return columns


def _counted(contents: Contents) -> dict[str, Any] | None:
    """ζ and accuracies of all checkpoints, if not all are drawn."""
    candidates = contents.candidates
    if not contents.checkpoints.is_thinned or not counts_all(contents):
        return None
    known = _has_region(candidates.susceptibility, candidates.train_accuracy)
    return {
        "zeta": contents.zeta_axis.on_grid(candidates.susceptibility[known]).tolist(),
        "train": contents.train_axis.on_grid(candidates.train_accuracy[known]).tolist(),
        "test": rounded(candidates.test_accuracy[known]),
    }


def _has_region(zeta: Floats, train: Floats) -> Booleans:
    return np.asarray(np.isfinite(zeta) & np.isfinite(train))


def _on_grid(axis: Axis, values: Floats) -> list[int | None]:
    known = np.isfinite(values)
    steps = axis.on_grid(np.where(known, values, 0.0))
    return [int(step) if is_known else None for step, is_known in zip(steps, known, strict=True)]


def _axis(axis: Axis) -> dict[str, Any]:
    # Rounding goes one way; half a step is what it adds or takes on average.
    return {"unit": axis.unit, "bias": 0.5 if axis.rounding == "up" else -0.5}


def _preset(selection: Selection) -> dict[str, Any]:
    return {
        "zeta": selection.thresholds["susceptibility"],
        "train": selection.thresholds["train_accuracy"],
        "regions": [_region(entry) for entry in selection.regions],
    }


def _region(entry: RegionSummary) -> dict[str, Any]:
    return {
        "count": entry.count,
        "train": entry.train_accuracy,
        "zeta": entry.susceptibility,
        "test": entry.test_accuracy,
    }
