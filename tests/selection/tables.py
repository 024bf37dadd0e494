"""Tables of checkpoints to select from, made by hand or drawn by hypothesis."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

from rote.records import Reading
from rote.selection import RULES
from rote.store import RunDirectory, RunTable

COLUMNS = (
    "susceptibility",
    "susceptibility_relative",
    "susceptibility_plain",
    "susceptibility_plain_relative",
)
VALUES = (
    *COLUMNS,
    "loss_before",
    "train_accuracy",
    "test_accuracy",
    "validation_accuracy",
    "noisy_accuracy",
)

Row = dict[str, Any]


def table_of(
    rows: Sequence[Mapping[str, Any]],
    samples: int | None = 64,
    columns: Mapping[str, Mapping[str, str]] | None = None,
) -> RunTable:
    """A table from rows with ``run``, ``step`` and whatever is known, in columns as described."""
    schema: dict[str, Any] = {"run": pl.String, "step": pl.Int64, "flags": pl.List(pl.String)}
    named = dict.fromkeys(name for row in rows for name in row)
    known = [name for name in (*VALUES, *named) if name in named and name not in schema]
    schema |= dict.fromkeys(known, pl.Float64)
    frame = pl.DataFrame(
        [{name: row.get(name) for name in schema} for row in rows], schema=schema
    ).with_columns(
        pl.col("flags").fill_null([]), row=(pl.col("step").rank("ordinal").over("run") - 1)
    )
    holdout = None if samples is None else {"size": samples, "hash": "h", "predictions": None}
    description = {"num_classes": 10, "holdout": holdout, "columns": columns or {}}
    descriptions = {row["run"]: description for row in rows}
    return RunTable(frame, descriptions)


# A coarse grid of halves of halves: ties are common, and sums and means are exact.
grid = st.integers(0, 64).map(lambda k: k / 64)
wide_grid = st.integers(-32, 256).map(lambda k: k / 64)
odd = st.sampled_from([None, float("nan"), float("inf")])
grid_or_odd, wide_grid_or_odd = grid | odd, wide_grid | odd  # made once: that is what takes long


@st.composite
def rows(draw: st.DrawFn, max_runs: int = 4, max_steps: int = 6, gaps: bool = False) -> list[Row]:
    """Checkpoints of a few runs; with gaps, any value may be missing or not finite."""
    found: list[Row] = []
    narrow, wide = (grid_or_odd, wide_grid_or_odd) if gaps else (grid, wide_grid)
    for run in range(draw(st.integers(1, max_runs))):
        for step in range(1, 1 + draw(st.integers(1, max_steps))):
            row: Row = {"run": f"run{run}", "step": step * 2}
            for name in VALUES:
                row[name] = draw(wide if name.startswith("susceptibility") else narrow)
            found.append(row)
    return found


def known_options(rule: str) -> dict[str, Any]:
    """What only the user knows, for a rule that takes it."""
    return {"noise_rate": 0.25} if hasattr(RULES[rule], "noise_rate") else {}


def shuffled(table: RunTable, seed: int) -> RunTable:
    """The same table with its rows in another order."""
    order = np.random.default_rng(seed).permutation(len(table.frame))
    return replace(table, frame=table.frame[order])


def write_voters(
    root: Path,
    predictions: np.ndarray,
    num_classes: int,
    holdout: str = "h",
    given: np.ndarray | None = None,
) -> None:
    """Runs on disk with predictions, shape (runs, checkpoints, samples), and given labels."""
    for number, run in enumerate(predictions):
        description: dict[str, Any] = {
            "name": f"run{number}",
            "num_classes": num_classes,
            "holdout": {"size": run.shape[1], "hash": holdout, "predictions": [run.shape[1]]},
        }
        if given is not None:
            description["given_labels"] = " ".join(map(str, given))
        directory = RunDirectory.create(root / f"{holdout}-{number}", description)
        for row, predicted in enumerate(run):
            metrics = {"train_accuracy": 0.5 + row / 100, "test_accuracy": 0.25}
            if given is not None:
                metrics["validation_accuracy"] = float((predicted == given).mean())
            zeta = 0.5 + row / 8
            entry = Reading(row + 1, 2.0, 1.0, 1.0, zeta, zeta / 2, metrics=metrics)
            directory.append(replace(entry, predictions=predicted), row)
        directory.close()
