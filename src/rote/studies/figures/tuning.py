"""Tuning by the estimated accuracy: searches replayed over a grid of finished runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.extras import require
from rote.store import RunTable
from rote.studies.chart import draw_panels
from rote.studies.markdown import count_pools, write_table
from rote.studies.study import Measured, Record, Study, match_group

if TYPE_CHECKING:
    from pathlib import Path

    from rote.studies.pool import Pool

TUNING = "tuning"
"""The group of the pools that form a grid of settings."""

SEEDS, TRIALS, WARMUP = 20, 15, 10
OURS = "estimate + auto"
ALONE = "estimate"
PRUNED = "estimate with the pruner + auto"
VALIDATION = "noisy validation"
VALIDATED = "noisy validation + auto"
TRAINING = "training accuracy"
ZETA = "ζ"
KNEE = "ζ and training accuracy"
_BEST = "best of the grid"
_FIELDS = {"lr": "optimizer.lr", "width": "width", "depth": "depth", "dropout": "dropout"}
_MOST_ASKED = 20 * TRIALS
"""A search ends after this many repeated suggestions."""

_GAUGE = "susceptibility_plain_relative"
_THEN_AUTO = {ALONE: OURS, VALIDATION: VALIDATED}
"""Searches after which ``auto`` also selects among all trials, and the names of these rows."""


@dataclass(frozen=True)
class SearchedRun:
    """One finished run, as a search sees it.

    Attributes:
        run: its name.
        values: its score, by objective; higher is better.
        tested: the test accuracy of the checkpoint that each objective keeps.
        epochs: how long it was trained.
        estimates: by step, the estimate so far and the upper end of its interval.
        front: ζ and training accuracy of the last checkpoint.
    """

    run: str
    values: Mapping[str, float]
    tested: Mapping[str, float]
    epochs: int
    estimates: Mapping[int, tuple[float, float]]
    front: tuple[float, float]


Settings = tuple[Any, ...]
Searched = tuple[list[SearchedRun], int]


def examine(pool: Pool, runs: RunTable, data_dir: Path | None) -> Record:  # noqa: ARG001
    """Replay searches with several seeds over the runs of a grid, each with the same epochs."""
    trials = {_get_settings(pool, name): _judge_run(runs, name) for name in sorted(runs.paths)}
    best = float(np.nanmax(runs.frame["test_accuracy"].to_numpy()))
    found: dict[str, list[list[float]]] = {}
    for seed in range(SEEDS):
        for way, (tested, epochs, count) in _replay_search(trials, runs, seed).items():
            found.setdefault(way, []).append([round(tested, 5), epochs, count])
    return {"best": best, "runs": len(trials), "searches": found}


def _get_settings(pool: Pool, run: str) -> Settings:
    spec = pool.specs[run].to_dict()
    options = spec["architecture"]["options"]
    return (spec["optimizer"]["lr"], options["width"], options["depth"], options["dropout"])


def _judge_run(runs: RunTable, name: str) -> SearchedRun:
    """Score one run by every objective, like a trial."""
    import polars as pl

    from rote.selection import select

    frame = runs.frame.filter(pl.col("run") == name).sort("step")
    test = dict(zip(frame["step"], frame["test_accuracy"], strict=True))
    whole = select(_take_part(runs, [name], math.inf))
    checked = {step: select(_take_part(runs, [name], step)) for step in test if step >= WARMUP}
    last, zeta = frame["step"][-1], float(frame[_GAUGE][-1])
    trained = float(frame["train_accuracy"][-1])
    best_given = frame.row(int(frame["validation_accuracy"].arg_max() or 0), named=True)
    values = {
        ALONE: whole.estimated_accuracy,
        VALIDATION: best_given["validation_accuracy"],
        TRAINING: trained,
        ZETA: -zeta,
    }
    tested = {
        ALONE: test[whole.pick.step],
        VALIDATION: best_given["test_accuracy"],
        TRAINING: test[last],
        ZETA: test[last],
    }
    return SearchedRun(
        name,
        {way: -math.inf if value is None else value for way, value in values.items()},
        tested,
        len(test),
        {step: _get_estimate(found) for step, found in checked.items()},
        (zeta, trained),
    )


def _get_estimate(found: Any) -> tuple[float, float]:  # noqa: ANN401
    estimate = found.estimated_accuracy
    high = math.inf if found.pick.interval is None else found.pick.interval[1]
    return (-math.inf if estimate is None else estimate), high


def _take_part(runs: RunTable, names: Sequence[str], step: float) -> RunTable:
    """Return some runs up to a step."""
    import polars as pl

    is_kept = pl.col("run").is_in(names) & (pl.col("step") <= step)
    return RunTable(
        runs.frame.filter(is_kept),
        {name: runs.descriptions[name] for name in sorted(names)},
        {name: runs.paths[name] for name in sorted(names)},
    )


def _replay_search(
    trials: Mapping[Settings, SearchedRun], runs: RunTable, seed: int
) -> dict[str, tuple[float, int, int]]:
    """Search by every objective; return test accuracy, epochs and trials."""
    budget = TRIALS * max(trial.epochs for trial in trials.values())
    found = {}
    for way in (ALONE, VALIDATION, TRAINING, ZETA):
        searched, epochs = _search(trials, seed, budget, _make_value_getter(way))
        kept = max(searched, key=lambda trial: trial.values[way])
        found[way] = (kept.tested[way], epochs, len(searched))
        if way in _THEN_AUTO:
            found[_THEN_AUTO[way]] = (_select_among(searched, runs), epochs, len(searched))
    searched, epochs = _search(trials, seed, budget, _make_value_getter(ALONE), prunes=True)
    found[PRUNED] = (_select_among(searched, runs), epochs, len(searched))
    searched, epochs = _search(trials, seed, budget, lambda t: t.front)
    found[KNEE] = (_find_knee(searched).tested[TRAINING], epochs, len(searched))
    return found


def _make_value_getter(way: str) -> Callable[[SearchedRun], tuple[float, ...]]:
    return lambda trial: (trial.values[way],)


def _select_among(searched: Sequence[SearchedRun], runs: RunTable) -> float:
    """Return the test accuracy of the checkpoint that ``auto`` keeps among all finished trials."""
    from rote.selection import select

    names = [trial.run for trial in searched]
    tested = select(_take_part(runs, names, math.inf)).pick.test_accuracy
    assert tested is not None
    return tested


def _search(
    trials: Mapping[Settings, SearchedRun],
    seed: int,
    budget: int,
    values: Callable[[SearchedRun], tuple[float, ...]],
    *,
    prunes: bool = False,
) -> Searched:
    """Search with Optuna's default sampler until the epochs are used up.

    A suggestion that was tried before costs nothing, as in a store of runs.
    """
    from rote.sweeps import is_surely_below

    optuna = require("optuna", extra="optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    axes = [sorted({key[i] for key in trials}) for i in range(len(_FIELDS))]
    directions = ["maximize"] if len(values(next(iter(trials.values())))) == 1 else None
    study = optuna.create_study(
        directions=directions or ["minimize", "maximize"],
        sampler=optuna.samplers.TPESampler(seed=seed),
    )
    done: dict[str, SearchedRun] = {}
    stopped: set[str] = set()
    used = 0
    for _ in range(_MOST_ASKED):
        if used >= budget:
            break
        asked = study.ask()
        pairs = zip(_FIELDS, axes, strict=True)
        trial = trials[tuple(asked.suggest_categorical(name, axis) for name, axis in pairs)]
        if trial.run in stopped:
            study.tell(asked, state=optuna.trial.TrialState.PRUNED)
            continue
        end = _find_end(trial, list(done.values()), is_surely_below) if prunes else None
        used += 0 if trial.run in done else end or trial.epochs
        if end is None:
            done[trial.run] = trial
            study.tell(asked, values(trial))
        else:
            stopped.add(trial.run)
            study.tell(asked, state=optuna.trial.TrialState.PRUNED)
    return list(done.values()), used


def _find_end(
    trial: SearchedRun, done: Sequence[SearchedRun], is_below: Callable[[float | None, float], bool]
) -> int | None:
    """Return the step at which the pruner stops a trial; None if it does not."""
    for step, (_, high) in sorted(trial.estimates.items()):
        reached = [
            value for other in done for at, (value, _) in other.estimates.items() if at <= step
        ]
        best = max(reached, default=-math.inf)
        if step < trial.epochs and is_below(high, best):
            return step
    return None


def _find_knee(searched: Sequence[SearchedRun]) -> SearchedRun:
    """Return the knee: the trial of the front that is highest above the line between its ends."""
    front = [
        one
        for one in searched
        if not any(
            other.front[0] <= one.front[0]
            and other.front[1] >= one.front[1]
            and other.front != one.front
            for other in searched
        )
    ]
    zeta, accuracy = (np.array([trial.front[i] for trial in front]) for i in (0, 1))
    spans = [max(float(np.ptp(values)), 1e-12) for values in (zeta, accuracy)]
    height = (accuracy - accuracy.min()) / spans[1] - (zeta - zeta.min()) / spans[0]
    return front[int(np.argmax(height))]


WAYS = (OURS, PRUNED, ALONE, VALIDATION, VALIDATED, TRAINING, ZETA, KNEE)


def measure(found: Measured) -> Record:
    """Return the mean test accuracy, its standard error and the trials, by pool and way."""
    return {
        "pools": {
            pool.name: {"best": record["best"], "runs": record["runs"], "ways": _sum_up(record)}
            for pool, record in found
        }
    }


def _sum_up(record: Record) -> dict[str, Any]:
    numbers = {}
    for way, searches in record["searches"].items():
        tested, epochs, trials = (list(column) for column in zip(*searches, strict=True))
        ours = [search[0] for search in record["searches"][OURS]]
        gaps = [mine - other for mine, other in zip(ours, tested, strict=True)]
        numbers[way] = {
            "tested": fmean(tested),
            "error": _compute_error(tested),
            "behind_ours": [fmean(gaps), _compute_error(gaps)],
            "epochs": fmean(epochs),
            "trials": fmean(trials),
        }
    return numbers


def _compute_error(values: Sequence[float]) -> float:
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def write_text(record: Record) -> str:
    """Return a row for each objective, a column for each pool."""
    pools = record["pools"]
    rows = {
        way: [
            *(_write_cell(pool["ways"][way]) for pool in pools.values()),
            f"{100 * _average_pools(record, way):.1f}",
        ]
        for way in WAYS
    }
    bests = [pool["best"] for pool in pools.values()]
    rows[_BEST] = [*(f"{100 * best:.1f}" for best in bests), f"{100 * fmean(bests):.1f}"]
    return (
        f"Test accuracy, in percent, of the checkpoint that a search keeps: mean over {SEEDS} "
        f"seeds of the search ± standard error (finished trials). Every search has {TRIALS} "
        "trials' worth of epochs. The grid was trained once, and searches are replayed over its "
        "finished runs: seeds differ in what Optuna suggests, not in the training.\n\n"
        "- *+ auto*: `auto` selects among all checkpoints of all finished trials, which vote. "
        "Otherwise, the search keeps the trial with the highest value of the objective, at its "
        "best checkpoint by that objective.\n"
        "- *training accuracy*, *ζ*: values of the last checkpoint, which is kept.\n"
        "- *ζ and training accuracy*: both are objectives, and the last checkpoint of the trial "
        "at the knee of their front is kept.\n\n" + write_table("objective", [*pools, "mean"], rows)
    )


def _write_cell(found: Record) -> str:
    tested, error = 100 * found["tested"], 100 * found["error"]
    return f"{tested:.1f} ± {error:.1f} ({found['trials']:.0f})"


def _average_pools(record: Record, way: str) -> float:
    return fmean(pool["ways"][way]["tested"] for pool in record["pools"].values())


def write_finding(record: Record) -> str:
    """Return the means over pools, and the gap to noisy validation in each pool."""
    means = ", ".join(f"{way} {100 * _average_pools(record, way):.1f}" for way in WAYS)
    return (
        f"Test accuracy of the kept checkpoint, mean over {count_pools(record['pools'])}: {means}. "
        f"Paired by seed, *{OURS}* minus *{VALIDATION}*: {_write_gaps(record, VALIDATION)}; minus "
        f"*{VALIDATED}*: {_write_gaps(record, VALIDATED)}."
    )


def _write_gaps(record: Record, way: str) -> str:
    found = {name: pool["ways"][way]["behind_ours"] for name, pool in record["pools"].items()}
    return ", ".join(
        f"{n} {100 * gap:+.1f} ± {100 * error:.1f}" for n, (gap, error) in found.items()
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the test accuracy by pool and objective."""
    rows = [
        {"pool": name, "way": way, "accuracy": 100 * pool["ways"][way]["tested"]}
        for name, pool in record["pools"].items()
        for way in WAYS
    ]
    return draw_panels(rows, "bar", "accuracy:Q", "way:N", titles=("test accuracy, %", ""))


STUDY = Study(
    name=TUNING,
    title="tuning by the estimated accuracy: test accuracy of the kept checkpoint",
    measure=measure,
    text=write_text,
    finding=write_finding,
    cause=(
        "The final selection, in which all trials vote, helps most. The objective matters less: "
        "the estimate of single trials is no better than noisy validation, and worse under the "
        "pair noise of mnist-tuning, which nearest neighbors repeat. After `auto` selects among "
        "trials, both searches are nearly equal. The pruner changes no mean by more than about "
        "one standard error. Training accuracy prefers the networks that memorize most. "
        "ζ alone prefers those that have learned least."
    ),
    wants=match_group(TUNING),
    draw=draw,
    examine=examine,
)
