"""Small stores of runs for the report: written as a tracker writes them, nothing is trained."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rote.records import Reading
from rote.store import RunDirectory

SCRIPT = "<script>alert(1)</script>"
EVIL_NAMES = (
    SCRIPT,
    '</script><!-- <img src=x onerror="alert(2)"> \u2028 {{ 7*7 }} `code`',
    "a'b\"c[0].d\\e ${1} " + "x" * 150,
)
EVIL_METRIC = "a.b['c']\"</script><i>"


def write_store(
    root: Path,
    *,
    runs: int = 6,
    steps: int = 12,
    metrics: Sequence[str] = ("train_accuracy", "test_accuracy", "noisy_accuracy"),
    names: Sequence[str] | None = None,
    gaps: float = 0.0,
    digits: int = 15,
    decades: float = 0.0,
    scale: float = 1.0,
    with_specs: bool = False,
    columns: Mapping[str, Mapping[str, str]] | None = None,
) -> Path:
    """Runs in which memorization comes with training, faster in later runs.

    Args:
        root: where to.
        runs: how many.
        steps: checkpoints of each.
        metrics: what is recorded besides the probe; any other name gets random numbers.
        names: of the runs.
        gaps: the share of readings whose ζ is NaN.
        digits: decimal places of ζ and accuracies; few of them make ties.
        decades: over how many powers of ten ζ is spread, besides.
        scale: what accuracies are multiplied by; 100 is a mistake that people make.
        with_specs: whether they have a ``workload.json``.
        columns: what the runs say about metrics of their own.
    """
    rng = np.random.default_rng(7)
    for run in range(runs):
        description = describe(names[run] if names else f"run-{run}", run)
        description |= {"columns": columns} if columns else {}
        directory = RunDirectory.create(root / str(run), description)
        for step in range(1, steps + 1):
            values = reading(step, run / runs, metrics, rng, gaps)
            if decades:
                zeta = values.susceptibility * 10 ** -(decades * rng.random())
                values = replace(values, susceptibility=zeta)
            metrics_then = {name: scale * value for name, value in values.metrics.items()}
            values = replace(values, metrics=metrics_then)
            directory.append(shortened(values, digits), step - 1)
        directory.close()
        if with_specs:
            (root / str(run) / "workload.json").write_text(json.dumps(workload(run)))
    return root


def reading(
    step: int, speed: float, metrics: Sequence[str], rng: np.random.Generator, gaps: float
) -> Reading:
    memorized = 1 - math.exp(-(0.1 + speed) * step / 8)
    learned = 1 - math.exp(-step / 3)
    truth = {
        "train_accuracy": 0.5 * learned + 0.45 * memorized,
        "test_accuracy": 0.9 * learned - 0.4 * memorized + 0.01 * rng.random(),
        "noisy_accuracy": memorized,
    }
    zeta = math.nan if rng.random() < gaps else 0.3 * memorized + 0.02 * rng.random()
    values = {name: float(truth.get(name, rng.random())) for name in metrics}
    return Reading(step, 2.3, 2.2, 0.1, zeta, zeta / 2.3, validation_accuracy=0.5, metrics=values)


def shortened(values: Reading, digits: int) -> Reading:
    metrics = {name: round(value, digits) for name, value in values.metrics.items()}
    return replace(values, susceptibility=round(values.susceptibility, digits), metrics=metrics)


def describe(name: str, run: int) -> dict[str, Any]:
    return {
        "name": name,
        "created": f"2026-02-03T04:05:{run % 60:02d}+00:00",
        "command": ["python", "train it.py", "--run", "7"],
        "versions": {"rote": "0.1.0", "torch": "2.13.0"},
        "seed": run % 2,
        "num_classes": 10,
        "holdout": None,
        "optimizer": {"class": "torch.optim.sgd.SGD", "settings": {"lr": 0.1 / (1 + run)}},
    }


def workload(run: int) -> dict[str, Any]:
    noise = {"model": "symmetric-inclusive", "rate": 0.5, "realized_rate": 0.4472954}
    return {
        "finished": run != 1,
        "data": {"name": "digits", "train": 1298, "holdout": 144, "noise": noise},
        "spec": {"name": "x", "epochs": 12, "optimizer": {"name": "sgd", "lr": 0.1 / (1 + run)}},
    }


TRUTH = ("train_accuracy", "test_accuracy", "noisy_accuracy")
TURNED_NAMES = ("run\u202e1", "\u202egnp.exe", "two\u2066\u200b", "ריצה 7")
INHERITED = (
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "valueOf",
    "__defineGetter__",
)
"""Names that every object of a browser has already."""
MANY_METRICS = tuple(f"group {i}/" + "a_long_name_of_a_metric_" * (1 + i % 5) for i in range(60))
SIGNALS: dict[str, dict[str, str]] = {
    "alignment": {"label": "alignment " + SCRIPT, "kind": "signal", "better": "higher"},
    "flips": {"label": "share of flips", "kind": "signal", "better": "lower", "unit": "share"},
    "bound": {"label": "a bound", "kind": "truth", "better": "lower"},
    "neutral": {"label": "neither way", "kind": "signal"},
}
STORES: dict[str, dict[str, Any]] = {
    "usual": {"with_specs": True},
    "evil": {"runs": 3, "names": EVIL_NAMES, "metrics": (*TRUTH, EVIL_METRIC, "<b>bold</b>")},
    "gaps": {"gaps": 0.4},
    "untold": {"metrics": ["train_accuracy"]},
    "bare": {"metrics": []},
    "single": {"runs": 1, "steps": 1},
    "first-step": {"runs": 5, "steps": 1},
    "one-run": {"runs": 1},
    "coarse": {"digits": 2},
    "decades": {"decades": 6.0},
    "percent": {"scale": 100.0},
    "turned": {"runs": 4, "names": TURNED_NAMES},
    "metrics": {"runs": 3, "names": ["a", "b", "c" * 400], "metrics": (*TRUTH, *MANY_METRICS)},
    "signals": {"metrics": (*TRUTH, *SIGNALS), "columns": SIGNALS},
    "inherited": {
        "names": INHERITED,
        "metrics": (*TRUTH, *INHERITED),
        "columns": {
            name: {"label": name, "kind": "signal", "better": "higher"} for name in INHERITED
        },
    },
    "large": {"runs": 13, "steps": 1000},
}
