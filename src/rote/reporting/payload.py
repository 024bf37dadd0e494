"""The data of the page: compact, packed, and the same for all of its charts."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.formatting import visible
from rote.reporting.checkpoints import Metric, rounded, shown_names
from rote.reporting.region_sums import RegionSums, region_sums

if TYPE_CHECKING:
    from rote.reporting.contents import Contents
    from rote.selection import RegionSummary, Selection


def payload_of(contents: Contents) -> dict[str, Any]:
    """Everything that the scripts of the page work with, but the charts and ``numbers_of``.

    A column that equals another is its name.
    """
    candidates, sums = contents.candidates, sums_of(contents)
    return {
        "runs": shown_names(candidates, contents.sample.runs),
        "columns": _columns(contents),
        "metrics": [_told(contents, metric) for metric in contents.checkpoints.hinted],
        "own": {metric.field: _told(contents, metric) for metric in _drawn_metrics(contents)},
        "positions": _positions(contents),
        "cells": None if sums is None else [sums.zeta.tolist(), sums.train.tolist()],
        "units": {"zeta": contents.zeta_axis.unit, "train": contents.train_axis.unit},
        "presets": {rule: _preset(selection) for rule, selection in _dividing(contents).items()},
        "leading": contents.verdict.selection.rule,
        "signals": [metric.field for metric in contents.checkpoints.signals],
    }


def numbers_of(contents: Contents) -> bytes:
    """ζ, training and test accuracy in full, one array of float64 after the other, NaN if unknown.

    The page counts and averages them as Python does, number by number in the same order, so that
    it shows the same digits. Where they are too many, they are those that are drawn, and the sums
    between all thresholds that the page can be set to stand behind them.
    """
    candidates, sums = contents.candidates, sums_of(contents)
    drawn = contents.checkpoints.positions
    told = candidates if sums is None and contents.shows_regions else candidates.take(drawn)
    names = ("zeta", "train_accuracy", "test_accuracy")
    arrays = [told.values(name) for name in names] + ([] if sums is None else [sums.sums.ravel()])
    return np.concatenate(arrays).astype("<f8").tobytes()


def sums_of(contents: Contents) -> RegionSums | None:
    """The sums between thresholds, those of rules among them; None if each checkpoint counts."""
    if contents.counts_each or not contents.shows_regions:
        return None
    thresholds = [selection.thresholds for selection in _dividing(contents).values()]
    return region_sums(
        contents.candidates,
        np.append(contents.zeta_axis.stops, [at["susceptibility"] for at in thresholds]),
        np.append(contents.train_axis.stops, [at["train_accuracy"] for at in thresholds]),
    )


def packed(payload: object) -> str:
    """Plain values as compressed JSON, in letters that end no script."""
    return packed_bytes(json.dumps(payload, separators=(",", ":"), allow_nan=False).encode())


def packed_bytes(content: bytes) -> str:
    """Bytes, compressed, in letters that end no script."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _dividing(contents: Contents) -> dict[str, Selection]:
    """What rules with regions chose, by name, if regions are shown."""
    found = {outcome.rule: outcome.selection for outcome in contents.outcomes.values()}
    if not contents.shows_regions:
        return {}
    return {rule: one for rule, one in found.items() if one and one.has_regions}


def _positions(contents: Contents) -> list[int] | None:
    """Which of those whose numbers are told are drawn; None if all are."""
    if not contents.checkpoints.is_thinned or not contents.counts_each:
        return None
    if not contents.shows_regions:
        return None
    return [int(position) for position in contents.checkpoints.positions]


def _columns(contents: Contents) -> dict[str, Any]:
    checkpoints = contents.checkpoints
    shown = contents.candidates.take(checkpoints.positions)
    kept = [metric.field for metric in (*checkpoints.hinted, *checkpoints.signals)]
    left = {m.field for m in checkpoints.metrics} - set(kept)
    columns: dict[str, Any] = {
        name: values
        for name, values in checkpoints.columns.items()
        if name.removesuffix("_alone") not in left
    }
    columns["run"] = np.searchsorted(contents.sample.runs, shown.run).tolist()
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
    for field in kept:
        same = [name for name, values in told.items() if values == columns[field]]
        columns[field] = same[0] if same else columns[field]
    return columns


def _drawn_metrics(contents: Contents) -> list[Metric]:
    """What is drawn over training besides ζ: pointing there shows it."""
    noisy = [Metric("noisy", "noisy_accuracy")] if contents.checkpoints.has("noisy") else []
    return [*noisy, *contents.checkpoints.signals]


def _told(contents: Contents, metric: Metric) -> list[str]:
    """How the page calls a metric, and its unit."""
    column = contents.estimated.describe(metric.name)
    return [metric.field, visible(column.label), column.unit]


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
