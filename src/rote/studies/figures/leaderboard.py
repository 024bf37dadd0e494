"""Every way to select a checkpoint, compared on the same runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.selection import Draws, make_candidates
from rote.studies.board import TITLES, write_lines
from rote.studies.chart import draw_panels
from rote.studies.cost import Cost, has_timed
from rote.studies.markdown import count_pools
from rote.studies.pool import FRESH
from rote.studies.selector import TRUTH, Judgment, Selector, judge
from rote.studies.study import Record, Study, Tables, is_for_rules

if TYPE_CHECKING:
    from rote.selection import Floats
    from rote.store import RunTable

_DRAWS = Draws(resamples=300)
_SYMMETRIC = ("symmetric-inclusive", "symmetric-exclusive")
_WITH_TRUTH = ("oracle", "label-error detector of 80 %", "label-error detector of 96 %")

_HOLDOUT, _TRAIN = (
    ("forward of the holdout", None, ("pass_holdout",)),
    "forward of the training set",
)
_PROBE, _PROBED = "3 forward, 1 backward of 128", ("probe", "pass_train")
_FIRST_WAVE, _MEAN_GWA, _MEAN_LOSS = "label_wave_first", "gwa_mean", "csl_per_epoch"
_PEAK = "highest norm of the weights"
_WITHIN_RUNS = ("LabelWave", "LabelWave, first minimum", "GWA", "GWA, mean of 3 epochs", _PEAK)
"""Selectors that stop a run; they do not claim to compare runs."""
_TRUTH = Cost(_TRAIN, 0, ("pass_train", "label_error_detector"), "the truth, simulated")


def list_selectors(noise_rate: float | None, noise: str | None) -> list[Selector]:
    """Return the selectors for a rate of wrong labels (None if unknown) and a kind of noise."""
    validation = [
        Selector(
            f"noisy validation, n = {n}",
            f"max:noisy_validation_{n}",
            Cost(f"forward of {n}", n, (f"pass_{n}",)),
        )
        for n in (10, 128, 256, 512, 1000, 2000)
    ]
    known = {} if noise_rate is None else {"noise_rate": noise_rate}
    rated = Cost(_TRAIN, 0, ("pass_train",), "the share of wrong labels")
    random = Cost(_TRAIN, 0, ("pass_train", "ratt"), "which labels are random")
    return [
        Selector("auto", "auto", Cost(*_HOLDOUT)),
        Selector("auto, one run alone", "auto", Cost(*_HOLDOUT), alone=True),
        Selector("posterior", "posterior", Cost(*_HOLDOUT, "several runs")),
        Selector("Dawid–Skene", "dawid-skene", Cost(*_HOLDOUT, "several runs")),
        Selector("consensus", "consensus", Cost(*_HOLDOUT, "several runs; no labels")),
        *validation,
        Selector(
            "noisy validation, then lowest ζ",
            "noisy-validation+susceptibility",
            Cost(f"forward of the holdout; {_PROBE}", None, ("pass_holdout", "probe")),
        ),
        *([] if noise_rate is None else [Selector(_RIGHT, "noise-rate", rated, known)]),
        # RATT's bound amounts to (k − 1) × the accuracy on wrong labels.
        *([Selector("RATT's bound", "min:noisy_accuracy", random)] if noise in _SYMMETRIC else []),
        *_list_zeta_selectors(),
        *_list_signal_selectors(),
        Selector("highest training accuracy", "max:train_accuracy", Cost(_TRAIN, 0, _PROBED[1:])),
        Selector("last checkpoint", "last"),
        Selector("label-error detector of 80 %", "max:detector_80", _TRUTH),
        Selector("label-error detector of 96 %", "max:detector_96", _TRUTH),
        Selector("oracle", "oracle", Cost(needs="the truth")),
    ]


_RIGHT = "share of right labels"


def _list_zeta_selectors() -> list[Selector]:
    probe = Cost(_PROBE, 128, ("probe",))
    both = Cost(f"{_PROBE}; {_TRAIN}", 128, _PROBED)
    return [
        Selector("lowest ζ", "min:susceptibility", probe),
        Selector("lowest ζ of the reference step", "min:susceptibility_plain_relative", probe),
        Selector("regions (the paper's rule)", "regions", both),
        Selector("staged", "staged", both),
        Selector("before-rise", "before-rise", probe, alone=True),
        Selector("filter, one run alone", "filter", both, alone=True),
    ]


def _list_signal_selectors() -> list[Selector]:
    """Return the direction of AUM and confident learning, chosen on pools for choosing."""
    disparity = Cost("5 forward and backward of a batch", 0, ("gradient_disparity",))
    return [
        Selector("LabelWave", "min:label_wave", Cost(timed=("label_wave",))),
        Selector("LabelWave, first minimum", f"min:{_FIRST_WAVE}", Cost(timed=("label_wave",))),
        Selector("GWA", "max:gwa", Cost(timed=("gwa",))),
        Selector("GWA, mean of 3 epochs", f"max:{_MEAN_GWA}", Cost(timed=("gwa",))),
        Selector("gradient disparity", "min:gradient_disparity", disparity),
        Selector("SELC's loss gap", "max:selc", Cost(timed=("selc",))),
        Selector("AUM: fewest below zero", "min:aum_negative", Cost(timed=("aum",))),
        Selector("AUM: highest mean margin", "max:aum", Cost(timed=("aum",))),
        Selector("CSL: lowest mean loss", f"min:{_MEAN_LOSS}", Cost(timed=("csl",))),
        Selector(_PEAK, "max:weight_norm", Cost(timed=("weight_norm",))),
        Selector("PMV's accuracy drop", "max:pmv", Cost("a second training", 0, ("pmv",))),
        Selector(
            "confident learning: fewest suspects",
            "min:confident_learning",
            Cost(timed=("confident_learning",)),
        ),
    ]


def measure(pools: Tables) -> Record:
    """Return results by pool and selector, and means over the pools of each purpose."""
    judged = {pool.name: _judge_selectors(table) for pool, table in pools}
    found = {pool.name: _measure_pool(table, judged[pool.name]) for pool, table in pools}
    groups = {
        purpose: [pool.name for pool, _ in pools if pool.purpose == purpose] for purpose in TITLES
    }
    means = {
        group: _average_judgments({name: (judged[name], found[name]) for name in names})
        for group, names in groups.items()
    }
    seconds = {name: Cost(timed=(name,)).compute_seconds(0) for name in ("epoch", "pmv")}
    return {"pools": found, "groups": groups, "means": means, **seconds}


def write_finding(record: Record) -> str:
    """Return which selectors lose least, and what these lose on fresh pools."""
    group = next(group for group, rows in record["means"].items() if rows)
    lost = _list_regrets(record, group)
    order = sorted((name for name in lost if name not in _WITH_TRUTH), key=lost.__getitem__)
    shown = dict.fromkeys([*order[:3], "regions (the paper's rule)", "last checkpoint"])

    def name_losses(lost: Mapping[str, float]) -> str:
        return ", ".join(f"{name} {100 * lost[name]:.1f}" for name in shown if name in lost)

    told = (
        f"Points of test accuracy lost per run, means over {count_pools(record['groups'][group])}, "
        f"by selectors that do not see the truth: {name_losses(lost)}."
    )
    if group != FRESH and (fresh := record["groups"][FRESH]):
        told += (
            f" On {count_pools(fresh)} that came later: "
            f"{name_losses(_list_regrets(record, FRESH))}."
        )
    return told


def _list_regrets(record: Record, group: str) -> dict[str, float]:
    rows = record["means"][group]
    return {name: row["regret"][0] for name, row in rows.items() if "of" not in row}


def draw(record: Record) -> Any:  # noqa: ANN401
    """Return the regret of every selector."""
    rows = [
        {"selector": name, "points": 100 * row["regret"][0], "pools": TITLES[group]}
        for group, means in record["means"].items()
        for name, row in sorted(means.items(), key=lambda entry: entry[1]["regret"][0])
        if "of" not in row
    ]
    return draw_panels(
        rows, "bar", "points:Q", "selector:N", titles=("points lost per run", ""), by="pools"
    )


STUDY = Study(
    name="leaderboard",
    title="every selector on the same runs: regret, correlation with the truth, cost",
    measure=measure,
    text=lambda record: "\n".join(write_lines(record)),
    finding=write_finding,
    wants=is_for_rules,
    draw=draw,
)


def _judge_selectors(table: RunTable) -> dict[str, tuple[Selector, Judgment]]:
    candidates = make_candidates(add_paper_forms(table), "susceptibility")
    asked = list_selectors(read_noise_rate(table), _get_data(table).get("noise", {}).get("model"))
    found = {s.name: (s, judge(s, candidates, _DRAWS)) for s in asked}
    return {
        name: (s, replace(known, pool=None) if name in _WITHIN_RUNS else known)
        for name, (s, known) in found.items()
        if known is not None
    }


def add_paper_forms(table: RunTable) -> RunTable:
    """Add columns for LabelWave's first minimum, the running mean of GWA, and CSL per epoch.

    The first two follow their papers. CSL itself only grows within a run.
    """
    import polars as pl

    frame = table.frame.sort("run", "step")
    forms: dict[str, pl.Expr] = {}
    if "label_wave" in frame.columns:
        wave = pl.col("label_wave")
        rises = (wave > wave.shift(1)).fill_null(value=False).cum_sum()
        forms[_FIRST_WAVE] = pl.when(rises.over("run") == 0).then(wave)
    if "gwa" in frame.columns:
        forms[_MEAN_GWA] = pl.col("gwa").rolling_mean(3).over("run")
    if "csl" in frame.columns:
        forms[_MEAN_LOSS] = pl.col("csl") / pl.col("step")
    return replace(table, frame=frame.with_columns(**forms))


def _measure_pool(
    table: RunTable, judged: Mapping[str, tuple[Selector, Judgment]]
) -> dict[str, Any]:
    truth = make_candidates(table, "susceptibility").values(TRUTH)
    data = _get_data(table)
    size = data.get("holdout", 0)
    is_timed = data.get("inputs") == "images" and has_timed(size)
    return {
        "runs": len(table.descriptions),
        "checkpoints": len(truth),
        "wrong_labels": read_noise_rate(table),
        "best": float(np.nanmax(truth)),
        "median": float(np.nanmedian(truth)),
        "rows": {
            name: {
                "cost": selector.cost.describe(size, is_timed=is_timed),
                "per_run": [round(lost, 6) for lost in found.per_run],
                **({} if found.at_pick is None else {"at_pick": list(found.at_pick)}),
                **{key: [e.value, e.low, e.high] for key, e in found.list_measures().items()},
            }
            for name, (selector, found) in judged.items()
        },
    }


def _get_data(table: RunTable) -> Mapping[str, Any]:
    first: Mapping[str, Any] = next(iter(table.descriptions.values()), {})
    found: Mapping[str, Any] = first.get("data", {})
    return found


def read_noise_rate(table: RunTable) -> float | None:
    """Return the share of labels that are wrong, where it is known."""
    noise = [entry.get("data", {}).get("noise", {}) for entry in table.descriptions.values()]
    rates = [entry.get("realized_rate") for entry in noise]
    known = [float(rate) for rate in rates if rate is not None]
    return float(np.mean(known)) if known else None


_Judged = Mapping[str, tuple[Mapping[str, tuple[Selector, Judgment]], Mapping[str, Any]]]


def _average_judgments(pools: _Judged) -> dict[str, dict[str, Any]]:
    """Average over pools, for selectors that work in most pools; pools have equal weight."""
    names = dict.fromkeys(name for judged, _ in pools.values() for name in judged)
    means: dict[str, dict[str, Any]] = {}
    for name in names:
        having = [pool for pool, (judged, _) in pools.items() if name in judged]
        if 2 * len(having) < len(pools):
            continue
        found = [pools[pool][0][name][1] for pool in having]
        costs = [pools[pool][1]["rows"][name]["cost"] for pool in having]
        means[name] = {"cost": _merge_costs(costs)}
        if len(having) < len(pools):
            means[name]["of"] = having
        for key in found[0].list_measures():
            if all(key in one.list_measures() for one in found):
                means[name][key] = _average_measure(found, key)
    return means


def _average_measure(found: Sequence[Judgment], key: str) -> list[float | None]:
    """Return the mean of a measure; runs are resampled within each pool."""
    values = [one.list_measures()[key].value for one in found]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return [None, None, None]
    value = float(np.mean(known))
    if any(key not in one.drawn for one in found):
        return [value, None, None]
    # Every pool draws the same run indices; shuffling the draws makes pools independent.
    rng = np.random.default_rng(_DRAWS.seed)
    drawn: Floats = np.mean([rng.permutation(one.drawn[key]) for one in found], axis=0)
    estimate = _DRAWS.estimate(value, drawn)
    return [estimate.value, estimate.low, estimate.high]


def _merge_costs(costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the costs in several pools; the seconds are those of the largest timed pool."""
    sizes = [cost["held_out"] for cost in costs]
    timed = [cost for cost in costs if cost["seconds"] is not None]
    largest = max(timed, key=lambda cost: cost["held_out"], default=costs[0])
    return {**largest, "held_out": [min(sizes), max(sizes)] if len(set(sizes)) > 1 else sizes[0]}
