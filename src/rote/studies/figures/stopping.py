"""The stop rule: the accuracy of the checkpoint that it keeps, and when it stops."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.records import Reading
from rote.selection import make_candidates
from rote.studies.chart import draw_panels
from rote.studies.checkpoints import ZETA
from rote.studies.figures.leaderboard import read_noise_rate
from rote.studies.markdown import NOTHING, count_pools, write_table
from rote.studies.selector import TRUTH
from rote.studies.study import Record, Study, Tables, is_for_rules

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.tracking import StopRule

_LAST, _OFF = "last checkpoint", 0.1
_VALIDATION, _TRAIN = "validation_accuracy", "train_accuracy"
_WAYS = (
    *(_LAST, "noisy validation", "noise_rate", "noise_rate 0.1 too high"),
    *("noise_rate 0.1 too low", "ζ"),
)


def measure(tables: Tables) -> Record:
    """Return points lost per run, standard error and mean epoch of the stop, by pool and way."""
    found = {}
    for pool, runs in tables:
        candidates = make_candidates(runs, ZETA)
        rules = _make_rules(
            read_noise_rate(runs), has_labels=bool(candidates.known(_VALIDATION).any())
        )
        found[pool.name] = {way: _judge_rule(candidates, rule) for way, rule in rules.items()}
    return {"pools": found}


def _make_rules(rate: float | None, *, has_labels: bool) -> dict[str, StopRule | None]:
    from rote.tracking import StopRule

    rules: dict[str, StopRule | None] = {_LAST: None}
    if has_labels:
        rules["noisy validation"] = StopRule()
    if rate is not None:
        rules["noise_rate"] = StopRule(noise_rate=rate)
        rules["noise_rate 0.1 too high"] = StopRule(noise_rate=min(rate + _OFF, 0.99))
        rules["noise_rate 0.1 too low"] = StopRule(noise_rate=max(rate - _OFF, 0.0))
    return rules | {"ζ": StopRule(column=ZETA)}


def _judge_rule(candidates: Candidates, rule: StopRule | None) -> dict[str, float]:
    lost, stops = [], []
    for part in candidates.by_run():
        steps, test = candidates.step[part].tolist(), candidates.values(TRUTH)[part]
        readings = _make_readings(candidates, part)
        keep, stop = (steps[-1], None) if rule is None else rule.replay(readings)
        lost.append(float(np.nanmax(test) - test[steps.index(keep)]))
        stops.append(steps[-1] if stop is None else stop)
    error = float(np.std(lost, ddof=1)) / len(lost) ** 0.5 if len(lost) > 1 else 0.0
    return {"regret": fmean(lost), "error": error, "stop": fmean(stops)}


def _make_readings(candidates: Candidates, part: slice) -> list[Reading]:
    """Return the readings with the fields that a stop rule reads."""
    steps = candidates.step[part].tolist()
    names = (ZETA, _TRAIN, _VALIDATION)
    zeta, train, given = (candidates.values(name)[part].tolist() for name in names)
    return [
        Reading(step, 0.0, 0.0, 0.0, zeta[i], 0.0,
                validation_accuracy=None if np.isnan(given[i]) else given[i],
                metrics={_TRAIN: train[i]})
        for i, step in enumerate(steps)
    ]  # fmt: skip


def write_text(record: Record) -> str:
    """Return a row for each pool, and their mean."""
    pools = record["pools"]
    rows = {name: [_write_cell(pool.get(way)) for way in _WAYS] for name, pool in pools.items()}
    rows[f"mean of {count_pools(pools)}"] = [
        _write_cell(_average_pools(record, way)) for way in _WAYS
    ]
    return "Points lost per run ± standard error @ mean epoch of the stop.\n\n" + write_table(
        "pool", _WAYS, rows
    )


def _write_cell(found: Record | None) -> str:
    if found is None:
        return NOTHING
    error = f" ± {100 * found['error']:.1f}" if "error" in found else ""
    return f"{100 * found['regret']:.1f}{error} @ {found['stop']:.0f}"


def _average_pools(record: Record, way: str) -> Record | None:
    found = [pool[way] for pool in record["pools"].values() if way in pool]
    return {key: fmean(p[key] for p in found) for key in ("regret", "stop")} if found else None


def write_finding(record: Record) -> str:
    """Return the means over pools."""
    means = {way: mean for way in _WAYS if (mean := _average_pools(record, way)) is not None}
    said = ", ".join(f"{way} {_write_cell(mean)}" for way, mean in means.items())
    return f"Points lost per run, means over {count_pools(record['pools'])} (@ epoch): {said}."


def draw(record: Record) -> Any:  # noqa: ANN401
    """Return points lost, by pool and way."""
    rows = [
        {"pool": name, "way": way, "points": 100 * found["regret"]}
        for name, pool in record["pools"].items()
        for way, found in pool.items()
    ]
    return draw_panels(rows, "bar", "points:Q", "way:N", titles=("points lost per run", ""))


STUDY = Study(
    name="stopping",
    title="which checkpoint the stop rule keeps, and when it stops",
    measure=measure,
    text=write_text,
    finding=write_finding,
    wants=is_for_rules,
    draw=draw,
)
