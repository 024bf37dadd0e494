"""The data of the page: compact, packed, and the same for all of its charts."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.reporting.checkpoints import rounded

if TYPE_CHECKING:
    from rote.reporting.contents import Contents
    from rote.selection import Candidates, RegionSummary, Selection

MOST_COUNTED = 200_000
"""Checkpoints beyond which the page counts regions among those that it draws only."""


def counts_all(contents: Contents) -> bool:
    """Whether the page knows ζ and accuracies of every checkpoint, drawn or not."""
    return len(contents.candidates) <= MOST_COUNTED


def payload_of(contents: Contents) -> dict[str, Any]:
    """Everything that the scripts of the page work with, but the charts and ``numbers_of``.

    A column that equals another is its name.
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
        "positions": _positions(contents),
        "units": {"zeta": contents.zeta_axis.unit, "train": contents.train_axis.unit},
        "presets": presets,
        "leading": contents.verdict.dividing,
        "signals": [
            metric.field
            for metric in contents.checkpoints.metrics
            if f"{metric.field}_alone" in contents.checkpoints.columns
        ],
    }


def numbers_of(contents: Contents) -> bytes:
    """ζ, training and test accuracy in full, one array of float64 after the other, NaN if unknown.

    The page counts and averages them as Python does, number by number in the same order, so that
    it shows the same digits.
    """
    candidates = _counted(contents)
    names = ("zeta", "train_accuracy", "test_accuracy")
    return np.concatenate([candidates.values(name) for name in names]).astype("<f8").tobytes()


def packed(payload: object) -> str:
    """Plain values as compressed JSON, in letters that end no script."""
    return packed_bytes(json.dumps(payload, separators=(",", ":"), allow_nan=False).encode())


def packed_bytes(content: bytes) -> str:
    """Bytes, compressed, in letters that end no script."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _counted(contents: Contents) -> Candidates:
    """The checkpoints that the page counts: all, or those that it draws."""
    if counts_all(contents):
        return contents.candidates
    return contents.candidates.take(contents.checkpoints.positions)


def _positions(contents: Contents) -> list[int] | None:
    """Which of those that are counted are drawn; None if all are."""
    if not contents.checkpoints.is_thinned or not counts_all(contents):
        return None
    return [int(position) for position in contents.checkpoints.positions]


def _columns(contents: Contents) -> dict[str, Any]:
    checkpoints = contents.checkpoints
    shown = contents.candidates.take(checkpoints.positions)
    columns: dict[str, Any] = dict(checkpoints.columns)
    columns["run"] = shown.run.tolist()
    for name in ("kept", *(name for name in columns if name.endswith("_alone"))):
        columns[name] = [None if value is None else int(value) for value in columns[name]]
    for name in ("zeta", "train", "test"):
        del columns[name]
    told = {
        "zeta": rounded(shown.zeta),
        "train": rounded(shown.values("train_accuracy")),
        "test": rounded(shown.values("test_accuracy")),
        "noisy": columns["noisy"],
    }
    for metric in checkpoints.metrics:
        same = [name for name, values in told.items() if values == columns[metric.field]]
        columns[metric.field] = same[0] if same else columns[metric.field]
    return columns


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
