"""How much test accuracy improves when training data are cleaned with a list of label errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.studies.chart import draw_panels
from rote.studies.detection import find_cleanlab_issues
from rote.studies.markdown import format_percent, write_table
from rote.studies.noisy_sets import SETS, train_set
from rote.studies.study import Record, Study

if TYPE_CHECKING:
    from pathlib import Path

    from rote.studies.noisy_sets import TrainedSet
    from rote.workloads import Cleaning, RunSpec

BEFORE, OURS, DROPPED = "given labels", "rote, drop and relabel", "rote, drop only"
CLEANLAB, TRUTH = "cleanlab, drop", "true labels"
WAYS = (BEFORE, OURS, DROPPED, CLEANLAB, TRUTH)
_FEWEST_TESTED = 200


def compute(store: Path, data_dir: Path | None) -> Record:
    """Clean every available set that has a test set, train again, and measure both."""
    found: dict[str, Any] = {}
    for noisy in SETS:
        runs = train_set(noisy, store / "noisy-sets", data_dir)
        if runs is None or _count_tested(runs) < _FEWEST_TESTED:
            continue
        plans = dict(_plan(runs))
        wrong, accuracies = _count_wrong(runs, plans), {}
        for name, (path, spec) in runs.plain.items():
            accuracies[name] = {BEFORE: _read_accuracy(path)}
            for way, plan in plans.items():
                accuracies[name][way] = _retrain(runs, spec, name, way, plan)
        found[noisy.name] = {
            "is_judged": noisy.is_judged,
            "is_systematic": noisy.is_systematic,
            "wrong": wrong,
            "changes": {
                way: {action: plan.count(action) for action in ("drop", "relabel")}
                for way, plan in plans.items()
            },
            "networks": accuracies,
        }
    return {"sets": found}


def _count_tested(runs: TrainedSet) -> int:
    with np.load(runs.file) as arrays:
        return len(arrays["y_test"])


def _plan(runs: TrainedSet) -> Iterator[tuple[str, Cleaning]]:
    """Plan every way to clean; none of them changes the holdout of the runs."""
    from rote.store import read_out_of_sample
    from rote.workloads import LabelChange, plan_cleaning

    paths = [*runs.folds, *(path for path, _ in runs.plain.values())]
    ours = plan_cleaning(paths)
    yield OURS, ours
    yield DROPPED, replace(ours, changes=tuple(replace(c, action="drop") for c in ours.changes))
    found = read_out_of_sample(runs.folds)
    assert found is not None  # the runs have folds
    with np.load(runs.file) as arrays:
        truth, given = arrays["y_train"], arrays["y_train_given"]
    kept = np.setdiff1d(np.arange(len(given)), ours.holdout)
    issues = find_cleanlab_issues(found.labels, found.best_probabilities)
    if issues is not None:
        dropped = [
            LabelChange(int(at), "", str(given[at]), str(given[at]), 1.0, "drop")
            for at in kept[issues[kept]]
        ]
        yield CLEANLAB, replace(ours, changes=tuple(dropped))
    corrected = [
        LabelChange(int(at), "", str(given[at]), str(truth[at]), 1.0, "relabel")
        for at in kept[(given != truth)[kept]]
    ]
    yield TRUTH, replace(ours, changes=tuple(corrected))


def _count_wrong(runs: TrainedSet, plans: Mapping[str, Cleaning]) -> dict[str, float]:
    """Return the share of wrong training labels before cleaning and after each way to clean."""
    with np.load(runs.file) as arrays:
        truth, given = arrays["y_train"], arrays["y_train_given"]
    found = {}
    for way, plan in {BEFORE: None, **plans}.items():
        labels = given.astype(np.int64)
        for change in () if plan is None else plan.changes:
            labels[change.sample] = -1 if change.action == "drop" else int(change.proposed)
        if plan is not None:
            labels[plan.holdout] = -1
        found[way] = round(float((labels != truth)[labels >= 0].mean()), 5)
    return found


def _retrain(
    runs: TrainedSet, spec: RunSpec, network: str, way: str, plan: Cleaning
) -> dict[str, float]:
    """Train a network on cleaned data, and test it."""
    from rote.workloads import RunSpec, get_holdout_path, train, write_cleaned

    folder = runs.file.parent
    file = folder / f"{way}.npz"
    if not file.is_file():
        write_cleaned(plan, file)
    values = spec.to_dict()
    probe = {key: value for key, value in values["probe"].items() if key != "holdout_size"}
    values["probe"] = probe | {"holdout_rows": str(get_holdout_path(file))}
    values["data"] = values["data"] | {"path": str(file)}
    path = folder / f"{network}, {way}"
    train(RunSpec.from_dict(values), path)
    return _read_accuracy(path)


def _read_accuracy(run: Path) -> dict[str, float]:
    """Return the test accuracy of the selected checkpoint, of the best and of the last one."""
    from rote.selection import select
    from rote.store import read_run

    tested = {reading.step: reading.test_accuracy for reading in read_run(run).readings}
    selected = tested[select(run).pick.step]
    return {"selected": selected, "best": max(tested.values()), "last": [*tested.values()][-1]}


def measure(recorded: Record) -> Record:
    """Return the computed or recorded numbers."""
    return recorded


def average_accuracy(one: Mapping[str, Any], way: str, which: str = "selected") -> float | None:
    """Return the mean over the networks of a set."""
    values = [found[way][which] for found in one["networks"].values() if way in found]
    return float(np.mean(values)) if values else None


def compute_gains(
    sets: Sequence[Mapping[str, Any]], way: str, which: str = "selected"
) -> list[float]:
    """Return the gain in accuracy of one way to clean, by set."""
    found = []
    for one in sets:
        after, before = average_accuracy(one, way, which), average_accuracy(one, BEFORE, which)
        if after is not None and before is not None:
            found.append(after - before)
    return found


def average_gain(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the mean with its 95 % interval over sets, Student's t."""
    from scipy.stats import t

    if len(values) < 2:
        return None
    mean = float(np.mean(values))
    margin = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5)
    return mean, mean - margin, mean + margin


def _show_gain(gain: tuple[float, float, float] | None) -> str:
    if gain is None:
        return "–"
    mean, low, high = (f"{100 * value:+.1f}".replace("-", "−") for value in gain)
    return f"{mean} ({low} to {high})"


def write_text(record: Record) -> str:
    """Return the accuracy by set before and after cleaning, the mean gains, and the changes."""
    sets = record["sets"]
    rows = {
        name: [
            f"{format_percent(one['wrong'][BEFORE])}",
            *(format_percent(average_accuracy(one, w)) for w in WAYS),
        ]
        for name, one in sets.items()
    }
    groups = {
        "all sets": list(sets.values()),
        "at least 20 % wrong, no labeling rules": [
            one for one in sets.values() if one["wrong"][BEFORE] >= 0.2 and not one["is_systematic"]
        ],
        "sets for judging": [one for one in sets.values() if one["is_judged"]],
    }
    means = {
        f"{title} ({len(group)}), {which} checkpoint": [
            _show_gain(average_gain(compute_gains(group, way, which))) for way in WAYS[1:]
        ]
        for title, group in groups.items()
        for which in ("selected", "best")
    }
    left = {
        name: [
            *(format_percent(one["wrong"].get(way)) for way in WAYS[:-1]),
            *(_count(one["changes"].get(way)) for way in WAYS[1:-1]),
        ]
        for name, one in sets.items()
    }
    return "\n\n".join(
        [
            _ABOUT,
            "## Test accuracy of the selected checkpoint\n",
            write_table("set", ["wrong labels", *WAYS], rows),
            "## Gain in points of test accuracy\n",
            write_table("mean over sets, 95 % interval", WAYS[1:], means),
            "## Remaining wrong labels, and samples dropped + relabeled\n",
            write_table("set", [*WAYS[:-1], *(f"changes: {way}" for way in WAYS[1:-1])], left),
        ]
    )


def _count(changes: Mapping[str, int] | None) -> str:
    return "–" if changes is None else f"{changes['drop']} + {changes['relabel']}"


_ABOUT = (
    "Each set has two small networks; accuracies are means over both, on a clean test set. The "
    "list of errors comes from 5 folds of the same networks. *rote, drop and relabel* is `rote "
    "clean` with its defaults (drop from a probability of 0.5, relabel from 0.9), *cleanlab, drop* "
    "removes what `find_label_issues` flags with the same probabilities. All are trained again "
    "with the same settings and the same noisy holdout, which is never cleaned and on which the "
    "checkpoint is selected. *Best checkpoint* is the one with the highest test accuracy, which "
    "is unknown in practice. One seed each: differences of a point or two on single sets mean "
    "nothing."
)


def write_finding(record: Record) -> str:
    """Return the mean gains and the sets on which cleaning does not help."""
    sets = record["sets"]
    if len(sets) < 2:
        return "Too few sets are available."
    every = list(sets.values())
    told = "; ".join(
        f"{way} {_show_gain(average_gain(compute_gains(every, way)))}" for way in WAYS[1:]
    )
    worse = [name for name, one in sets.items() if compute_gains([one], OURS)[0] <= 0]
    where = f" It does not help on: {', '.join(worse)}." if worse else ""
    return (
        f"Mean gain of the selected checkpoint over {len(every)} sets, in points with 95 % "
        f"intervals: {told}.{where}"
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the gain of every way to clean, by set."""
    rows = [
        {"set": name, "points": 100 * gain, "way": way}
        for way in WAYS[1:]
        for name, one in record["sets"].items()
        for gain in compute_gains([one], way)
    ]
    titles = ("points of test accuracy gained", "")
    return draw_panels(rows, "bar", "points:Q", "set:N", titles=titles, by="way")


STUDY = Study(
    name="cleaning",
    title="test accuracy before and after cleaning the labels",
    measure=measure,
    text=write_text,
    finding=write_finding,
    wants=None,
    draw=draw,
    compute=compute,
)
