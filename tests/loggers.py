"""Runs for the tests of loggers: readings with every oddity, and an MLflow store of one's own."""

import math
import tempfile
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.records import Reading
from rote.store import open_sinks, parse_targets

DESCRIPTION = {
    "created": "2026-01-01T00:00:00+00:00",
    "command": ["train.py", "x" * 9000, 'ζ = 1/3 "quoted" \''],  # longer than one tag of MLflow
    "seed": 3,
    "num_classes": 10,
    "policy": {"batch": 8, "optimizer": "live", "verify": False},
    "labels": {"kind": "uniform", "hash": "abc"},
    "holdout": {"size": 64, "hash": "def", "predictions": None},
    "model": {"class": "torch.nn.Linear", "parameters": 12},
    "optimizer": {"class": "torch.optim.SGD", "settings": {"lr": 0.1, "betas": [0.9, 0.99]}},
}


def readings(seed: int, steps: int = 12) -> list[Reading]:
    """Numbers that 32 bits cannot hold, some not finite, some absent, some flagged."""
    rng = np.random.default_rng(seed)
    found = []
    for step in range(1, steps + 1):
        values = rng.random(9) * (1 + seed)
        odd = step == 4 and seed == 1
        flags = ("non_finite", "diverging_plain") if odd else ("dominated",) * (step == 7)
        metrics = {"train_accuracy": step / 13, "lr": 0.1 / 3, "top-5 é": 1e-300 * step}
        if step % 3 == 0:
            metrics["test_accuracy"] = float(rng.random())
        if step == 5:
            metrics["broken"] = math.inf
        found.append(
            Reading(
                step,
                loss_before=math.nan if odd else values[0],
                loss_after=-math.inf if odd else values[1],
                drop=math.nan if odd else values[0] - values[1],
                susceptibility=values[2] * step / 12,
                susceptibility_relative=values[3],
                drop_plain=None if seed == 2 else values[4],
                susceptibility_plain=None if seed == 2 else values[5],
                validation_accuracy=values[6] / 10,
                seconds=values[7],
                flags=flags,
                metrics={name: float(value) for name, value in metrics.items()},
            )
        )
    return [_plain(reading) for reading in found]


def _plain(reading: Reading) -> Reading:
    values = reading.to_dict()
    kept = {k: float(v) if isinstance(v, np.floating) else v for k, v in values.items()}
    return Reading.from_dict(kept)


def log(save_to: Any, found: Sequence[Reading], name: str | None = None, **options: Any) -> None:
    """Write readings as a tracker would."""
    described = {"name": name, **DESCRIPTION}
    sinks = open_sinks(parse_targets(save_to), described, resume=options.get("resume", False))
    for row, reading in enumerate(found):
        sinks.append(reading, row)
    sinks.close()


def new_mlflow_store(folder: Path) -> str:
    """An empty store on SQLite; making one anew would take MLflow seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mlflow.db"
    path.write_bytes(_empty_store())
    return f"sqlite:///{path}"


@cache
def _empty_store() -> bytes:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy about MLflow, once per process
        from mlflow import MlflowClient

        path = Path(folder) / "mlflow.db"
        MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
        return path.read_bytes()


def keep_wandb_here(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """W&B without a network, and without a trace outside a folder."""
    import wandb

    wandb.teardown()  # it remembers the settings of the first test
    patch.setenv("WANDB_MODE", "offline")
    patch.setenv("WANDB_SILENT", "true")
    for name in ("WANDB_DIR", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        patch.setenv(name, str(folder))
