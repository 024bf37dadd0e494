"""Runs that take milliseconds, and how to compare them."""

from pathlib import Path
from typing import Any

import numpy as np

from rote.records import Reading
from rote.workloads.spec import RunSpec

NOISE = {"model": "symmetric-inclusive", "rate": 0.5}


def small_spec(**changes: Any) -> RunSpec:
    """A few epochs of a small network on 60 digits."""
    values: dict[str, Any] = {
        "epochs": 3,
        "batch": 16,
        "data": {"name": "digits", "train_size": 60, "test_size": 20},
        "noise": NOISE,
        "architecture": {"name": "mlp", "options": {"width": 8, "depth": 1, "dropout": 0.2}},
        "probe": {"holdout_size": 12, "batch": 8},
    }
    return RunSpec.from_dict(values | changes)


def write_npz(path: Path, **arrays: Any) -> str:
    """Save arrays, and say where."""
    np.savez(path, **arrays)
    return str(path)


def numbers(readings: tuple[Reading, ...]) -> list[dict[str, Any]]:
    """Everything about readings that must be the same every time."""
    found = []
    for reading in readings:
        values = reading.to_dict()
        del values["seconds"]
        found.append(values)
    return found


def read_npz(path: Path) -> dict[str, Any]:
    """All arrays of a file."""
    with np.load(path) as found:
        return {name: found[name] for name in found.files}
