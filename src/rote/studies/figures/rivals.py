"""How well each signal measures memorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import draw_panels
from rote.studies.checkpoints import (
    ALL_RUNS,
    NO_NORM,
    NOISY,
    NORM,
    PLAIN,
    ZETA,
    average_known,
    correlate_by_group,
    sample,
)
from rote.studies.markdown import capitalize, count_pools, format_number, write_group_tables
from rote.studies.networks import NETWORKS
from rote.studies.study import Brief, Record, Study, is_for_rules, judge_claim, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

_SELC, _PMV = "loss-mixture gap (SELC)", "accuracy drop (PMV)"
PLAIN_NAME = "ζ of the reference step"
SIGNALS = {
    "ζ": ZETA,
    PLAIN_NAME: PLAIN,
    _SELC: "selc",
    _PMV: "pmv",
    "gradient-weight alignment (GWA)": "gwa",
    "gradient disparity": "gradient_disparity",
    "changed predictions (LabelWave)": "label_wave",
    "norm of the weights": "weight_norm",
    "training accuracy": "train_accuracy",
}


_SHOWN = (_PMV, _SELC, "ζ")
"""The signals in the figure of the paper."""
_DRAWN = 200


def measure_pool(pool: Pool, candidates: Candidates) -> Record | None:
    """Return the correlation of every recorded signal with memorization, by group of runs."""
    if not candidates.known(NOISY).any():
        return None
    found: dict[str, Any] = {}
    for name, column in SIGNALS.items():
        if candidates.known(column).any():
            for group, value in correlate_by_group(pool, candidates, column, NOISY).items():
                found.setdefault(group, {})[name] = value
    found["points"] = {
        name: sample(candidates, {"x": SIGNALS[name], "memorized": NOISY}, pool=pool, most=_DRAWN)
        for name in _SHOWN
        if candidates.known(SIGNALS[name], NOISY).any()
    }
    return found


def write_text(record: Record) -> str:
    """Return a table for each group of runs, with a row for each signal."""
    title = "Pearson with the accuracy on noisy labels"
    return write_group_tables(title, (ALL_RUNS, NORM, NO_NORM), record["pools"], SIGNALS)


def _average_pools(record: Record, group: str) -> dict[str, tuple[float, int]]:
    """Return each signal's mean over pools and the number of pools, strongest first."""
    pools = [pool[group] for pool in record["pools"].values() if group in pool]
    found = {name: [pool[name][0] for pool in pools if name in pool] for name in SIGNALS}
    means = {
        name: (mean, sum(value is not None for value in values))
        for name, values in found.items()
        if (mean := average_known(values)) is not None
    }
    return dict(sorted(means.items(), key=lambda entry: -abs(entry[1][0])))


def write_finding(record: Record) -> str:
    """Return means over pools, strongest first, with the number of pools if some lack a signal."""
    said = []
    shown: dict[str, tuple[float, int]] = {}
    for group in (ALL_RUNS, NORM):
        means = _average_pools(record, group)
        if not means or means == shown:
            continue
        shown = means
        most = max(count for _, count in means.values())
        each = ", ".join(
            f"{name} {format_number(mean)}{'' if count == most else f' (in {count} of them)'}"
            for name, (mean, count) in means.items()
        )
        words = "one of ζ is" if _is_zeta_first(means) else "no ζ is"
        said.append(f"{capitalize(group)}: {each}; apart from training accuracy, {words} strongest")
    pools = record["pools"]
    return (
        f"Mean Pearson with the accuracy on noisy labels, {count_pools(pools)}. {'. '.join(said)}."
    )


def _is_zeta_first(means: dict[str, tuple[float, int]]) -> bool:
    """Return whether ζ is first, and rises; training accuracy does not count as a signal."""
    first = next(name for name in means if name != "training accuracy")
    return first in ("ζ", PLAIN_NAME) and means[first][0] > 0


def write_brief(record: Record) -> Brief:
    """Return the paper's three signals, among networks with batch norm.

    There, the accuracy drop rises slightly with memorization, and the loss mixture falls.
    """
    means = _average_pools(record, NORM) or _average_pools(record, ALL_RUNS)
    if "ζ" not in means:
        return Brief("not known", None)
    short = {_PMV: "accuracy drop", _SELC: "loss mixture"}
    each = [
        f"{words} {format_number(means[name][0])}" for name, words in short.items() if name in means
    ]
    falls = [means[name][0] < 0 for name in (_SELC,) if name in means]
    rises = [means[name][0] >= 0 for name in (_PMV,) if name in means]
    every = _is_zeta_first(_average_pools(record, ALL_RUNS))
    ours = ", ".join([*each, f"ζ {format_number(means['ζ'][0])}"])
    return Brief(ours, judge_claim([_is_zeta_first(means), every, *falls, *rises]))


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: the accuracy on noisy labels over each of its signals."""
    rows = [
        {"signal": name, **point}
        for name in _SHOWN
        for pool in record["pools"].values()
        for point in pool["points"].get(name, [])
    ]
    titles = ("", "accuracy on noisy labels")
    return draw_panels(
        rows, "circle", "x:Q", "memorized:Q", titles=titles, by="signal", color="architecture:N"
    )


STUDY = Study(
    name="rivals",
    title="how well signals measure memorization: accuracy drop, loss mixture, GWA, ζ and others",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=lambda pool: is_for_rules(pool) or pool.group == NETWORKS,
    draw=draw,
    paper=("fig:mv",),
    cause="Among networks with batch norm, as the paper uses them, ζ rises with memorization as "
    "in the paper. Networks without it and diverged runs hide this in the mean over all runs.",
    cause_at_medium=(
        "Apart from training accuracy, ζ is the strongest signal, as in the paper. Training "
        "accuracy is ahead because few networks of this size reach a high one without memorizing. "
        "The loss-mixture gap grows while right labels are learned and shrinks only when wrong "
        "ones are memorized, so its sign depends on how far networks get; in the paper it is "
        "negative. The accuracy drop of six networks has no clear sign."
    ),
    brief=write_brief,
)
