"""What makes a selection doubtful, whichever the rule."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from rote.formatting import escape_invisible, format_share
from rote.records import COLUMNS, ZETAS
from rote.selection.candidates import ZETA
from rote.selection.groups import find_step_differences
from rote.store import find_foreign_metrics, guess_mapping

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.regions import RegionSummary
    from rote.selection.rule import Decision, Rule

_FEW = 10
_MOST_LISTED = 12
_NEARLY_EMPTY = 0.02
_NEARLY_ALL = 0.95


def list_warnings(
    everything: Candidates,
    usable: Candidates,
    rule: Rule,
    decision: Decision,
    regions: tuple[RegionSummary, ...],
) -> tuple[str, ...]:
    """Sentences; none if there is nothing to say."""
    return (
        *(f"Left out {place}: {why}" for place, why in everything.table.unreadable.items()),
        *_warn_of_left_out(everything, rule),
        *_warn_of_too_few(usable, rule),
        *_check_percent(usable),
        *(_warn_of_no_zeta(everything) or _check_regions(decision.thresholds, regions)),
        *_check_mean(usable, decision.thresholds),
        *_check_live_zeta(usable, rule),
        *_check_readings(usable, decision.pick),
    )


def _warn_of_no_zeta(everything: Candidates) -> tuple[str, ...]:
    note = explain_no_zeta(everything)
    return () if note is None else (note,)


def explain_no_zeta(everything: Candidates) -> str | None:
    """Explain how to get ζ where runs have none, and list their metrics; None if they have it."""
    frame = everything.table.frame
    if any(everything.known(name).any() for name in ZETAS):
        return None
    if "flags" in frame.columns and (frame["flags"].list.len() > 0).any():
        return None  # a probe was there, and its losses were not finite
    metrics = find_foreign_metrics(frame)
    missing = [name for name in COLUMNS if not everything.known(name).any()]
    pairs = guess_mapping(metrics, missing).items()
    maps = " ".join(f"--map {shlex.quote(f'{own}={theirs}')}" for own, theirs in pairs)
    listed = ", ".join(f"`{escape_invisible(name)}`" for name in metrics[:_MOST_LISTED])
    more = f" and {len(metrics) - _MOST_LISTED} more" if len(metrics) > _MOST_LISTED else ""
    held = f" These runs hold {listed}{more}." if metrics else ""
    meant = f" What they mean is probably `{maps}`." if maps else ""
    if metrics and "susceptibility=" not in maps:
        meant += " If one of them is ζ: `--map susceptibility=METRIC`."
    return (
        f"No checkpoint has ζ: nothing here measures memorization.{held}{meant} Saved checkpoints "
        "are measured after the fact by `rote probe CHECKPOINTS --model MODULE:NAME --data SAMPLES "
        "--classes N --out RUN`."
    )


def _warn_of_left_out(everything: Candidates, rule: Rule) -> Iterator[str]:
    for need in rule.needs:
        name = everything.column if need == ZETA else need
        missing = int(np.isnan(everything.values(need)).sum())
        if missing:
            yield f"Left out: {missing} of {len(everything)} checkpoints, with no finite `{name}`."


def _warn_of_too_few(usable: Candidates, rule: Rule) -> Iterator[str]:
    if len(usable) < _FEW:
        counted = "1 checkpoint" if len(usable) == 1 else f"{len(usable)} checkpoints"
        yield f"Only {counted}: fewer than {_FEW} are too few to trust any rule."
    if rule.compares_runs and usable.num_runs == 1:
        yield (
            f"Rule `{rule.name}` compares runs, and only one has what it needs. Use rule `auto` "
            "for a single run."
        )


def _check_regions(
    thresholds: Mapping[str, float], regions: tuple[RegionSummary, ...]
) -> Iterator[str]:
    if "train_accuracy" not in thresholds:
        return  # the rule does not pick by region
    counts = {entry.region: entry.count for entry in regions}
    total = sum(counts.values())
    if counts[1] == 0:
        yield (
            "Region 1 is empty: no resistant checkpoint reaches the training accuracy that divides "
            f"the regions, {format_share(thresholds['train_accuracy'])}."
        )
    elif counts[1] < _NEARLY_EMPTY * total:
        yield (
            f"Region 1 has only {counts[1]} of {total} checkpoints. Rule `staged`, which compares "
            "training accuracy among resistant checkpoints only, divides them more evenly."
        )


def _check_percent(usable: Candidates) -> Iterator[str]:
    shares = [column for column in usable.table.columns.values() if column.unit == "share"]
    for column in shares:
        highest = np.fmax.reduce(usable.values(column.name), initial=0)
        if highest > 1:
            yield (
                f"`{column.name}` reaches {highest:.4g}: accuracies are shares from 0 to 1. "
                "Divide percent by 100: percent=True, or --percent."
            )


def _check_live_zeta(usable: Candidates, rule: Rule) -> Iterator[str]:
    """Warn where live ζ is compared between runs whose training steps differ in size."""
    is_live = "plain" not in usable.column
    if ZETA not in rule.needs or not is_live or usable.num_runs < 2:
        return
    differing = find_step_differences(usable)
    if differing:
        yield (
            f"Live ζ is compared although the runs differ in {', '.join(differing)}, which change "
            "it. Use column `susceptibility_plain_relative` (--column), if the reference step was "
            "recorded."
        )


def _check_mean(usable: Candidates, thresholds: Mapping[str, float]) -> Iterator[str]:
    zeta = usable.zeta[np.isfinite(usable.zeta)]
    if len(zeta) < _FEW or "susceptibility" not in thresholds:
        return
    below = float((zeta < thresholds["susceptibility"]).mean())
    if below > _NEARLY_ALL:
        largest = int(np.nanargmax(usable.zeta))
        yield (
            f"{below:.1%} of the checkpoints have ζ below the threshold of "
            f"{thresholds['susceptibility']:.4g}: a few very large values raise this mean, up to "
            f"{usable.zeta[largest]:.4g} at {usable.name(largest)}. Use rule `filter` "
            "or a relative column."
        )


def _check_readings(usable: Candidates, pick: int) -> Iterator[str]:
    frame = usable.table.frame
    if "flags" not in frame.columns:
        return
    is_odd = (frame["flags"].list.len() > 0).fill_null(value=False).to_numpy()[usable.position]
    if not is_odd.any():
        return
    odd = frame["flags"].gather(usable.position[is_odd])
    chosen = frame["flags"][int(usable.position[pick])]
    for flag, meaning in _list_meanings(usable.column).items():
        count = int(odd.list.contains(flag).sum())
        if count:
            is_picked = chosen is not None and flag in chosen
            yield (
                f"ζ of {count} of {len(usable)} checkpoints"
                f"{', including the selected one,' if is_picked else ''} is {meaning} (`{flag}`). "
                "Compare with column `susceptibility_plain_relative`."
            )


def _list_meanings(column: str) -> dict[str, str]:
    step = "_plain" if "plain" in column else ""
    meanings = {
        f"diverging{step}": "taken while the loss diverged",
        f"non_finite{step}": "taken while the loss was not finite, which is left out of it",
    }
    if "relative" not in column:  # the flag is about the absolute mean
        meanings[f"dominated{step}"] = (
            "dominated by one reading, which makes up more than half of it"
        )
    return meanings
