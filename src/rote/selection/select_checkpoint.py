"""Choosing a checkpoint: read, judge, explain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError, did_you_mean
from rote.interpretation import read_start
from rote.records import COLUMNS
from rote.selection.baseline_comparison import compare_with_baselines
from rote.selection.candidates import ZETA, Candidates, as_shares, candidates_of
from rote.selection.groups import check_comparable, grouped, runs_where
from rote.selection.regions import paper_thresholds, regions_of, summarize
from rote.selection.rules import RULES, find_rule
from rote.selection.selection import Pick, Selection
from rote.selection.warnings import warnings_of
from rote.store import RunTable, find_checkpoint, read_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from rote.selection.rule import Rule, Verdict

DEFAULT_RULE = "auto"
"""The strongest that what is recorded allows."""


def select(
    runs: Path | str | Sequence[Path | str] | RunTable,
    rule: str | Rule = DEFAULT_RULE,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    per_cent: bool = False,
    **options: Any,  # noqa: ANN401
) -> Selection:
    """Choose the checkpoint to keep; ``print`` what comes back.

    Args:
        runs: a run directory, a directory of run directories, a source
            (``mlflow:EXPERIMENT[@uri]``, ``tensorboard:LOGDIR``, ``csv:FILE``,
            ``package.module:Name:PLACE``), a list of any of these, or a table.
        rule: the name of a rule in ``RULES``; ``max:COLUMN`` or ``min:COLUMN`` for any recorded
            column; or a rule of your own, as it is or as ``package.module:Name``.
        column: which ζ to go by: ``susceptibility`` (live step), ``susceptibility_plain`` (plain
            step), or either with ``_relative`` behind it (relative to the loss before the step).
        mapping: where metrics have other names than rote's: from rote's name to theirs, such as
            ``{"susceptibility": "my_metric"}``.
        where: only the runs that say this of themselves, by dotted names of ``run.json``, the
            description of their data and their spec, such as ``{"data.name": "digits"}``.
        per_cent: accuracies above 1 were recorded in per cent, and are divided by 100.
        options: of the rule, such as ``t1=40`` for ``percentile``.

    Returns:
        The pick, with the regions, the thresholds, the reasons, and what makes it doubtful.

    Raises:
        InputError: if there is no such rule, column, option, run, source or metric, no checkpoint
            has what the rule needs, or the runs must not be compared: they are on other data,
            classes, labels or holdouts.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    judge = find_rule(rule, options)
    table = table_of(runs, mapping, where=where, per_cent=per_cent)
    return choose(judge, candidates_of(table, column))


def select_groups(
    runs: Path | str | Sequence[Path | str] | RunTable,
    by: str,
    rule: str | Rule = DEFAULT_RULE,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    per_cent: bool = False,
    **options: Any,  # noqa: ANN401
) -> dict[str, Selection]:
    """Choose a checkpoint of every group of runs: the arguments are those of ``select``.

    Args:
        runs: as for ``select``.
        by: what divides them: a dotted name as in ``where``, such as ``data.name``.
        rule: as for ``select``.
        column: as for ``select``.
        mapping: as for ``select``.
        where: as for ``select``.
        per_cent: as for ``select``.
        options: as for ``select``.

    Returns:
        What to keep, by what the runs of a group say.

    Raises:
        InputError: as for ``select``, of any group.
    """
    judge = find_rule(rule, options)
    groups = tables_of(runs, by, mapping, where=where, per_cent=per_cent)
    return {value: choose(judge, candidates_of(part, column)) for value, part in groups.items()}


def table_of(
    runs: Path | str | Sequence[Path | str] | RunTable,
    mapping: Mapping[str, str] | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    per_cent: bool = False,
) -> RunTable:
    """What is given as runs, read unless it is a table already; all may be compared.

    Raises:
        InputError: if there is no run, a table comes with a mapping, or runs must not be compared.
    """
    table = _read(runs, mapping, where, per_cent)
    check_comparable(table)
    return table


def tables_of(
    runs: Path | str | Sequence[Path | str] | RunTable,
    by: str,
    mapping: Mapping[str, str] | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    per_cent: bool = False,
) -> dict[str, RunTable]:
    """The same in groups, by what runs say under a dotted name.

    Raises:
        InputError: as for ``table_of``, of any group; or if no run says anything under that name.
    """
    groups = grouped(_read(runs, mapping, where, per_cent), by)
    for part in groups.values():
        check_comparable(part)
    return groups


def _read(
    runs: Path | str | Sequence[Path | str] | RunTable,
    mapping: Mapping[str, str] | None,
    where: Mapping[str, Any] | None,
    per_cent: bool,
) -> RunTable:
    if not isinstance(runs, RunTable):
        table = read_table(runs, mapping)
    elif mapping:
        raise InputError("Expected `mapping` to go with runs to read, got a table. Pass it there.")
    else:
        table = runs
    table = runs_where(table, where) if where else table
    return as_shares(table) if per_cent else table


def choose(rule: Rule, candidates: Candidates) -> Selection:
    """What a rule says about candidates.

    Raises:
        InputError: if none has what it needs.
    """
    usable = usable_for(rule, candidates)
    verdict = rule.judge(usable)
    spoken = verdict.by or rule
    if verdict.column is not None:
        candidates = replace(candidates, column=verdict.column)
        usable = replace(usable, column=verdict.column)
    thresholds = dict(verdict.thresholds)
    has_regions = thresholds.keys() >= {"susceptibility", "train_accuracy"}
    if not has_regions:
        thresholds = paper_thresholds(candidates) | thresholds
    region = regions_of(candidates, thresholds)
    summary = summarize(candidates, region)
    pick = _pick(candidates, usable, verdict, region)
    return Selection(
        rule=spoken.name,
        column=candidates.column,
        thresholds=thresholds,
        pick=pick,
        table=_table(candidates, usable, verdict, region),
        regions=summary,
        reasons=verdict.reasons
        if verdict.by is not None
        else (f"Rule `{rule.name}`, by `{candidates.column}`.", *verdict.reasons),
        warnings=(*warnings_of(candidates, usable, spoken, verdict, summary), *verdict.warnings),
        has_regions=has_regions,
        baselines=compare_with_baselines(usable, verdict),
        start=read_start(candidates.table.descriptions.get(pick.run, {})),
        **vars(verdict.findings),
    )


def usable_for(rule: Rule, candidates: Candidates) -> Candidates:
    """The candidates that have what a rule needs.

    Raises:
        InputError: if none has.
    """
    if not len(candidates):
        raise InputError("Expected `runs` to have checkpoints, got none. Probe at least once.")
    for count, need in enumerate(rule.needs, start=1):
        if not candidates.known(*rule.needs[:count]).any():
            name = candidates.column if need == ZETA else need
            others = [other for other, kind in RULES.items() if need not in kind.needs]
            known = candidates.table.columns
            guess = "" if name in known or name in COLUMNS else did_you_mean(name, known)
            raise InputError(
                f"Expected `{name}` to be recorded for rule {rule.name!r}, got no checkpoint with "
                f"a finite one among {len(candidates)}.{guess} Record it, or use a rule that does "
                f"without ({', '.join(others)})."
            )
    usable = candidates.known(*rule.needs)
    return candidates if usable.all() else candidates.take(usable)


def _pick(
    everything: Candidates, usable: Candidates, verdict: Verdict, region: npt.NDArray[np.int8]
) -> Pick:
    index = verdict.pick
    name = usable.runs[usable.run[index]]
    path, step = usable.table.paths.get(name), int(usable.step[index])
    place = int(np.flatnonzero(everything.position == usable.position[index])[0])
    return Pick(
        run=name,
        step=step,
        susceptibility=_known(usable.zeta[index]),
        train_accuracy=_known(usable.values("train_accuracy")[index]),
        region=int(region[place]) or None,
        test_accuracy=_known(usable.values("test_accuracy")[index]),
        validation_accuracy=_known(usable.values("validation_accuracy")[index]),
        score=None if verdict.score is None else _known(verdict.score[index]),
        interval=verdict.interval,
        path=path,
        file=None if path is None else find_checkpoint(path, step),
    )


def _table(
    everything: Candidates, usable: Candidates, verdict: Verdict, region: npt.NDArray[np.int8]
) -> Any:  # noqa: ANN401
    import polars as pl

    placed = np.zeros(len(everything), dtype=np.int8)
    placed[everything.position] = region
    columns = [pl.Series("region", placed)]
    if not placed.all():
        columns = [columns[0].replace(0, None)]
    known = {} if verdict.score is None else {"score": verdict.score}
    for name, values in {**known, **verdict.columns}.items():
        column = np.full(len(everything), np.nan)
        column[usable.position] = values
        columns.append(pl.Series(name, column).fill_nan(None))
    return everything.table.frame.with_columns(columns)


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
