"""The leaderboard as Markdown: a summary first, then all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from rote.studies.markdown import NOTHING
from rote.studies.pool import FRESH

if TYPE_CHECKING:
    from rote.studies.study import Record

TITLES = {
    "judged": "Pools for judging",
    "chosen": "Pools for choosing constants",
    FRESH: "Fresh pools",
}
_FIRST = (
    "auto",
    "auto, one run alone",
    "noisy validation, n = 256",
    "noisy validation, n = 2000",
    "Dawid–Skene",
    "consensus",
    "share of right labels",
    "last checkpoint",
    "regions (the paper's rule)",
    "LabelWave",
    "LabelWave, first minimum",
    "GWA",
    "GWA, mean of 3 epochs",
    "lowest ζ",
)
_COST = ("extra passes per epoch", "held out", "seconds per epoch", "must be known")
_SUMMARY = ("selector", "regret per run, points", "pick of the pool, points", *_COST[:3])
_ALL = (
    *_SUMMARY[:3],
    "error of the estimate, points",
    *("τ, test accuracy", "Pearson, memorized", "Spearman, memorized"),
    *_COST,
)
_POINTS, _SHARES = ("regret", "pool", "error"), ("kendall", "pearson", "spearman")

_COLUMNS = (
    "*regret per run*: how far the test accuracy of the checkpoint selected within a run is below "
    "that of the run's best checkpoint; *pick of the pool*: the same for the one checkpoint "
    "selected among all runs.",
    "*error of the estimate*: for rules that estimate the accuracy, the mean distance between "
    "estimate and test accuracy over all checkpoints.",
    "*τ*: Kendall's τ of the selector's score with test accuracy; *Pearson* and *Spearman*: "
    "correlation with the accuracy on mislabeled training samples (memorization). All checkpoints "
    "count.",
    "LabelWave and GWA stop a run and do not claim to compare runs: they have no pick of the pool. "
    "By its paper, LabelWave stops at its *first minimum*; its other row takes the lowest value of "
    "the whole run. By its paper, GWA is the *mean of 3 epochs*; its other row takes single "
    "epochs.",
    "In brackets: 95 % intervals over runs, which are resampled within each pool. They say "
    "nothing about other data; the tables of the pools show how much pools differ. A resample "
    "contains fewer distinct runs, so its best checkpoint may be worse, and the interval of a "
    "pick of the pool may not contain its value.",
)
_SECONDS = (
    "*seconds*: CPU time of one core, mean over the networks of the pools with images (`python "
    "benchmarks/costs.py`); networks on text were not timed.{epoch} The selection itself happens "
    "once and is not counted."
)
_UNTIMED = "*seconds* were measured on smaller networks only ([leaderboard](leaderboard.md))."
_LEARNED = (
    "Nothing was chosen on these pools: every rule and constant was fixed before their first run. "
    "Their networks learn, and many then memorize, so selection matters more than in the "
    "[smaller pools](leaderboard.md). A pool counts as soon as its first runs are finished: three "
    "or four networks with all recipes."
)
_CONSTANTS = (
    "Constants may be chosen on the pools for choosing only ({chosen}); here, these are the "
    "directions of AUM and confident learning. `auto` and the posterior were designed earlier, on "
    "smaller pools. Two of those used the same data as two pools judged here, YouTube and "
    "CIFAR-10N worse ([selection](../selection.md#what-the-rules-cost))."
)
_FRESH = (
    "These pools ({fresh}) were declared, committed and then trained after everything else was "
    "fixed, including the choices of `auto`. Nothing was chosen on them, and nothing changed "
    "after their results were known."
)
_ABSENT = (
    "PMV's accuracy drop needs a second training of every run{pmv} and was recorded in the fresh "
    "pools only; [rivals](rivals.md) shows how well it measures memorization. Not in these tables: "
    "noisy validation with 1,024 and 2,048 labels, more than these pools hold out. RATT's bound "
    "requires uniformly random labels; it is in the tables of pools with symmetric noise. AUM and "
    "confident learning find samples rather than checkpoints (`rote suspects`); here they select "
    "the checkpoint with the fewest suspects, or with AUM's highest mean margin. CSL's sum of "
    "losses only grows within a run, so the row of CSL divides it by the epochs. CSL and the norm "
    "of the weights were not recorded in pools of preset `small`: their rows are in the pools of "
    "preset `medium`."
)
_ESTIMATED = ("posterior", "Dawid–Skene")
_COLLAPSE = (
    "Dawid and Skene's model assumes that the errors of runs are independent, but runs that learn "
    "from the same labels share errors. It ranks about as well as the posterior: its regret per "
    "run minus that of the posterior is {gap:+.2f} ± {error:.2f} points (mean and standard error "
    "over {sets}). Its estimate of the accuracy collapses: the runs outvote the given labels, and "
    "the model trusts the majority of the runs. The estimate for its own selected checkpoint is "
    "{high[1]:.1f} points too high on average, at worst {worst:.1f} ({where}). The estimate of "
    "the posterior, which fits how much to trust the votes, is off by {high[0]:+.1f}. `auto` uses "
    "the posterior: the verdict needs an accuracy, and no rule was chosen on the pools for "
    "judging. In brackets: the test accuracy of the selected checkpoint."
)


def write_lines(record: Record) -> Iterator[str]:
    """Return the page below its figure."""
    group = next(group for group, rows in record["means"].items() if rows)
    data = {key: _name_data(names) for key, names in record["groups"].items()}
    count = len(record["groups"][group])
    yield f"## In short\n\nMeans over {count} {TITLES[group].lower()}: {data[group]}.\n"
    first = {n: row for n, row in record["means"][group].items() if n in _FIRST}
    yield from _write_table(_SUMMARY, first)
    said = _format_seconds(record["epoch"], " An epoch of training takes {:.2f} s.")
    is_timed = any(row["cost"]["seconds"] is not None for row in first.values())
    seconds = _SECONDS.format(epoch=said) if is_timed else _UNTIMED
    yield "\n" + "\n".join(f"- {line}" for line in (*_COLUMNS, seconds))
    yield "\n" + (_CONSTANTS.format(chosen=data["chosen"]) if data["chosen"] else _LEARNED)
    yield from _collapse(record["pools"])
    for group, title in TITLES.items():
        if names := record["groups"][group]:
            yield f"\n## {title}\n\nMeans over {len(names)} pools: {', '.join(names)}.\n"
            if group == FRESH:
                yield _FRESH.format(fresh=data[FRESH]) + "\n"
            yield from _write_table(_ALL, record["means"][group])
            yield from _compare_in_fewer_pools(record, group)
    if data["chosen"]:
        yield "\n" + _ABSENT.format(pmv=_format_seconds(record["pmv"], " ({:.2f} s per epoch)"))
    for name, pool in record["pools"].items():
        yield from _write_pool(name, pool)


def _collapse(pools: Mapping[str, Any]) -> Iterator[str]:
    """Compare the estimates of Dawid and Skene's model with those of the posterior."""
    rows = {name: [pool["rows"].get(one) for one in _ESTIMATED] for name, pool in pools.items()}
    rows = {name: found for name, found in rows.items() if all(found)}
    if not rows:
        return
    off = {name: [100 * (a - b) for a, b in (r["at_pick"] for r in rows[name])] for name in rows}
    worst = max(off, key=lambda name: off[name][1])
    by_data: dict[str, list[float]] = {}
    for name, (posterior, model) in rows.items():
        gap = 100 * (model["regret"][0] - posterior["regret"][0])
        by_data.setdefault(name.rpartition("-")[0], []).append(gap)
    gaps = [fmean(of_seeds) for of_seeds in by_data.values()]
    said = _COLLAPSE.format(
        sets=f"{len(gaps)} data sets",
        gap=fmean(gaps),
        error=stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0,
        high=[fmean(found[i] for found in off.values()) for i in (0, 1)],
        worst=off[worst][1],
        where=worst,
    )
    yield f"\n## Where Dawid–Skene collapses\n\n{said}\n"
    yield f"| pool | best, test accuracy | {' | '.join(f'{one}, estimate' for one in _ESTIMATED)} |"
    yield "|---|---|---|---|"
    for name, found in rows.items():
        cells = [f"{a:.1%} ({b:.1%})" for a, b in (row["at_pick"] for row in found)]
        yield f"| {name} | {pools[name]['best']:.1%} | {' | '.join(cells)} |"


def _name_data(names: Sequence[str]) -> str:
    """Return the names of pools without the seed of their data, and the number of seeds."""
    known = list(dict.fromkeys(name.rpartition("-")[0] for name in names))
    seeds = len(names) // max(len(known), 1)
    return ", ".join(known) + (f"; {seeds} seeds of data each" if seeds > 1 else "")


def _write_pool(name: str, pool: Mapping[str, Any]) -> Iterator[str]:
    wrong = pool["wrong_labels"]
    rate = "" if wrong is None else f", {wrong:.0%} of the labels are wrong"
    yield (
        f"\n## {name}\n\n{pool['runs']} runs, {pool['checkpoints']} checkpoints{rate}; test "
        f"accuracy of the best {pool['best']:.1%}, of the median {pool['median']:.1%}.\n"
    )
    yield from _write_table(_ALL, pool["rows"])


def _compare_in_fewer_pools(record: Record, group: str) -> Iterator[str]:
    """Yield the selectors that only some pools allow, with others on the same pools."""
    for name, row in record["means"][group].items():
        if "of" not in row:
            continue
        rows = [record["pools"][pool]["rows"] for pool in row["of"]]
        others = ("noisy validation, n = 256", "auto", "last checkpoint")
        means = {
            other: 100 * sum(found[other]["regret"][0] for found in rows) / len(rows)
            for other in others
            if all(other in found for found in rows)
        }
        said = ", ".join(f"{other} {mean:.1f}" for other, mean in means.items())
        left = [pool for pool in record["groups"][group] if pool not in row["of"]]
        hold = "holds" if len(left) == 1 else "hold"
        yield (
            f"\nThe row of {name} is the mean over {len(rows)} pools: {', '.join(left)} {hold} out "
            f"fewer samples. Over the same pools, regret per run: {said}."
        )


def _format_seconds(seconds: Sequence[float] | None, words: str) -> str:
    return "" if seconds is None else words.format(seconds[0])


def _write_table(columns: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for name, row in sorted(rows.items(), key=lambda entry: entry[1]["regret"][0]):
        cells = {"selector": f"{name} ({len(row['of'])} pools)" if "of" in row else name}
        keys = (*_POINTS, *_SHARES)
        scales = [(100, 1)] * len(_POINTS) + [(1, 2)] * len(_SHARES)
        for column, key, (scale, digits) in zip(_ALL[1:], keys, scales, strict=False):
            cells[column] = _format_cell(row.get(key), scale, digits)
        cells |= dict(zip(_COST, _format_cost(row["cost"]), strict=True))
        yield f"| {' | '.join(cells[column] for column in columns)} |"


def _format_cost(cost: Mapping[str, Any]) -> tuple[str, ...]:
    size = cost["held_out"]
    held = "–".join(map(str, size)) if isinstance(size, list) else str(size)
    seconds = "0" if cost["seconds"] == [0, 0, 0] else _format_cell(cost["seconds"], 1, 3)
    return cost["passes"] or "none", held, seconds, cost["needs"] or NOTHING


def _format_cell(estimate: Sequence[float | None] | None, scale: float, digits: int) -> str:
    known = [f"{scale * value:.{digits}f}" for value in estimate or () if value is not None]
    if len(known) == 3 and len(set(known)) > 1:
        return f"{known[0]} ({known[1]} to {known[2]})"
    return known[0] if known else NOTHING
