"""What every rule costs on pools whose truth is known: regret per run, and of the pick of a pool.

Reads any stores of runs with ``test_accuracy`` (``benchmarks/verdict_pools.py`` trains small ones),
prints a table and writes ``benchmarks/verdict.json``::

    python benchmarks/verdict.py runs/pools/digits-pair runs/pools/yoruba ...
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rote.errors import InputError
from rote.selection import Candidates, choose, find_rule, make_candidates
from rote.store import RunTable, read_run, read_table
from rote.tracking import StopRule

GAUGE = "susceptibility_plain_relative"
WITHIN = {
    "last": "last",
    "noisy-validation": "noisy-validation",
    "noisy-validation+susceptibility": "noisy-validation+susceptibility",
    "posterior, neighbors": "posterior",
    "noise-rate": "noise-rate",
    "before-rise": "before-rise",
    "staged": "staged",
    "regions": "regions",
    "auto, one run": "auto",
    "auto, nothing held out": "auto",
    "auto, noise rate alone": "auto",
}
ACROSS = ("posterior", "consensus", "auto")
"""Rules whose scores of all runs together order the checkpoints within each, too."""


@dataclass(frozen=True)
class Pool:
    """Runs whose truth is known.

    Attributes:
        name: of the folder.
        table: the runs.
        noise_rate: the share of wrong labels.
    """

    name: str
    table: RunTable
    noise_rate: float

    @property
    def runs(self) -> list[str]:
        """Their names."""
        return sorted(self.table.descriptions)

    def of(self, runs: list[str], *, bare: bool = False) -> Candidates:
        """Return some of the runs; bare: as if nothing had been held out."""
        frame = self.table.frame.filter(pl.col("run").is_in(runs))
        paths = {} if bare else self.table.paths
        if bare:
            frame = frame.drop("validation_accuracy", strict=False)
        kept = {name: self.table.descriptions[name] for name in runs}
        return make_candidates(
            replace(self.table, frame=frame, descriptions=kept, paths=paths), "susceptibility"
        )


def read_pool(folder: Path) -> Pool:
    """One store."""
    table = read_table(folder)
    wrong = [
        json.loads((path / "workload.json").read_text())["data"]["noise"]["realized_rate"]
        for path in table.paths.values()
    ]
    return Pool(folder.name, table, float(np.mean(wrong)))


def options_of(label: str, rule: str, pool: Pool) -> dict[str, Any]:
    """Return what a rule is told."""
    is_told = rule == "noise-rate" or label == "auto, noise rate alone"
    return {"noise_rate": pool.noise_rate} if is_told else {}


def picked(label: str, pool: Pool, runs: list[str]) -> float:
    """Return the test accuracy of a rule's pick among some runs, NaN if it cannot say."""
    rule = WITHIN.get(label, label)
    bare = label in ("auto, nothing held out", "auto, noise rate alone")
    judge = find_rule(rule, options_of(label, rule, pool))
    candidates = pool.of(runs, bare=bare)
    if rule in ("before-rise", "staged", "regions", "noise-rate"):
        candidates = replace(candidates, column=GAUGE)
    try:
        return choose(judge, candidates).pick.test_accuracy or np.nan
    except InputError:
        return float("nan")


def scored(rule: str, pool: Pool) -> dict[str, float]:
    """Return the test accuracy of what a rule for many runs thinks best in each."""
    table = choose(find_rule(rule), pool.of(pool.runs)).table
    best = (
        table.sort(["score", "step"], descending=[True, False], nulls_last=True)
        .group_by("run", maintain_order=True)
        .first()
    )
    return dict(zip(best["run"].to_list(), best["test_accuracy"].to_list(), strict=True))


def stopped(pool: Pool, run: str, rule: StopRule) -> float:
    """Return the test accuracy of what a stop rule keeps, or of the last checkpoint."""
    keep, _ = rule.replay(read_run(pool.table.paths[run]).readings)
    rows = pool.table.frame.filter((pl.col("run") == run) & (pl.col("step") == keep))
    return float(rows["test_accuracy"][0])


def by_run(pool: Pool) -> dict[str, dict[str, float]]:
    """Return the test accuracy of every rule's pick, by rule and run."""
    found = {label: {run: picked(label, pool, [run]) for run in pool.runs} for label in WITHIN}
    for name in ACROSS:
        found[f"{name}, all runs"] = scored(name, pool)
    stops = {
        "StopRule, validation": StopRule(),
        "StopRule, noise rate": StopRule(noise_rate=pool.noise_rate),
        "StopRule, ζ": StopRule(column="susceptibility"),
    }
    for name, rule in stops.items():
        found[name] = {run: stopped(pool, run, rule) for run in pool.runs}
    return found


def regrets(pool: Pool, draws: int, size: int) -> dict[str, dict[str, Any]]:
    """Of every rule: points below the best of each run, and of the pick of runs drawn at random."""
    frame = pool.table.frame
    best = {
        run: float(np.nanmax(frame.filter(pl.col("run") == run)["test_accuracy"].to_numpy()))
        for run in pool.runs
    }
    found: dict[str, dict[str, Any]] = {}
    for label, values in by_run(pool).items():
        costs = np.array([100 * (best[run] - values[run]) for run in pool.runs])
        found[label] = {"per_run": costs.tolist(), **interval(costs)}
    rng = np.random.default_rng(0)
    drawn = [list(rng.choice(pool.runs, min(size, len(best)), replace=False)) for _ in range(draws)]
    for label in (*WITHIN, "posterior", "consensus", "auto"):
        if label in ("posterior, neighbors", "auto, one run"):
            continue
        costs = np.array(
            [100 * (max(best[r] for r in runs) - picked(label, pool, runs)) for runs in drawn]
        )
        name = f"{label}, all runs" if label in ACROSS else label
        found.setdefault(name, {})["pick"] = float(np.mean(costs))
    return found


def interval(costs: np.ndarray) -> dict[str, float]:
    """Return the mean, with its 95 % bootstrap interval over runs."""
    rng = np.random.default_rng(0)
    means = costs[rng.integers(len(costs), size=(1000, len(costs)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return {"mean": float(costs.mean()), "low": float(low), "high": float(high)}


def estimates(pool: Pool) -> dict[str, float]:
    """How far the posterior's estimates are from the truth, in points."""
    found = choose(find_rule("posterior"), pool.of(pool.runs))
    if "estimated_accuracy" not in found.table.columns:
        return {"noise_rate": pool.noise_rate}
    error = (found.table["estimated_accuracy"] - found.table["test_accuracy"]).to_numpy()
    assert found.pick.interval is not None
    return {
        "mean_error": 100 * float(np.abs(error).mean()),
        "bias": 100 * float(error.mean()),
        "noise_rate": pool.noise_rate,
        "estimated_noise_rate": found.noise_rate or 0.0,
        "confidence": found.confidence or 0.0,
        "low": found.pick.interval[0],
        "high": found.pick.interval[1],
        "test_accuracy_of_pick": found.pick.test_accuracy or 0.0,
    }


def lines(found: dict[str, dict[str, dict[str, Any]]]) -> Iterator[str]:
    """Return a table in Markdown: per run, and pick."""
    pools = list(found)
    yield f"| rule | {' | '.join(pools)} | mean |"
    yield "|---" * (len(pools) + 2) + "|"
    for label in next(iter(found.values())):
        cells = [found[pool][label] for pool in pools]
        yield f"| {label} | {' | '.join(map(_cell, cells))} | {_cell(_mean(cells))} |"


def _mean(cells: list[dict[str, Any]]) -> dict[str, Any]:
    names = [name for name in ("mean", "pick") if all(name in cell for cell in cells)]
    return {name: float(np.mean([cell[name] for cell in cells])) for name in names}


def _cell(cell: dict[str, Any]) -> str:
    show: Callable[[str], str] = lambda name: f"{cell[name]:.1f}" if name in cell else "–"  # noqa: E731
    return f"{show('mean')} / {show('pick')}"


def main() -> None:
    """Judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("stores", type=Path, nargs="+")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--size", type=int, default=6, help="runs in a draw")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    pools = [read_pool(store) for store in arguments.stores]
    found = {pool.name: regrets(pool, arguments.draws, arguments.size) for pool in pools}
    print("\n".join(lines(found)))
    known = {pool.name: estimates(pool) for pool in pools}
    for name, values in known.items():
        print(name, {key: round(value, 3) for key, value in values.items()})
    figures = {"regret": found, "estimates": known, "cpu_seconds": time.process_time()}
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
