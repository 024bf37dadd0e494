"""Choosing a checkpoint: read, judge, explain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError, did_you_mean
from rote.records import COLUMNS
from rote.selection.candidates import ZETA, Candidates, candidates_of
from rote.selection.regions import paper_thresholds, regions_of, summarise
from rote.selection.rules import RULES, find_rule
from rote.selection.selection import Pick, Selection
from rote.selection.warnings import warnings_of
from rote.store import RunTable, read_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from rote.selection.rule import Rule, Verdict

DEFAULT_RULE = "regions"
"""The paper's."""


def select(
    runs: Path | str | Sequence[Path | str] | RunTable,
    rule: str | Rule = DEFAULT_RULE,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401
) -> Selection:
    """Choose the checkpoint to keep.

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
        options: of the rule, such as ``t1=40`` for ``percentile``.

    Returns:
        The pick, with the regions, the thresholds, the reasons, and what makes it doubtful.

    Raises:
        InputError: if there is no such rule, column, option, run, source or metric, or no
            checkpoint has what the rule needs.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    judge = find_rule(rule, options)
    return choose(judge, candidates_of(table_of(runs, mapping), column))


def table_of(
    runs: Path | str | Sequence[Path | str] | RunTable, mapping: Mapping[str, str] | None = None
) -> RunTable:
    """What is given as runs, read unless it is a table already.

    Raises:
        InputError: if there is no run, or a table comes with a mapping.
    """
    if not isinstance(runs, RunTable):
        return read_table(runs, mapping)
    if mapping:
        raise InputError("Expected `mapping` to go with runs to read, got a table. Pass it there.")
    return runs


def choose(rule: Rule, candidates: Candidates) -> Selection:
    """What a rule says about candidates.

    Raises:
        InputError: if none has what it needs.
    """
    usable = usable_for(rule, candidates)
    verdict = rule.judge(usable)
    thresholds = dict(verdict.thresholds)
    if not thresholds.keys() >= {"susceptibility", "train_accuracy"}:
        thresholds = paper_thresholds(candidates) | thresholds
    region = regions_of(candidates, thresholds)
    summary = summarise(candidates, region)
    return Selection(
        rule=rule.name,
        column=candidates.column,
        thresholds=thresholds,
        pick=_pick(candidates, usable, verdict, region),
        table=_table(candidates, usable, verdict, region),
        regions=summary,
        reasons=(f"Rule `{rule.name}`, by `{candidates.column}`.", *verdict.reasons),
        warnings=(*warnings_of(candidates, usable, rule, verdict, summary), *verdict.warnings),
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
    place = int(np.flatnonzero(everything.position == usable.position[index])[0])
    return Pick(
        run=name,
        step=int(usable.step[index]),
        susceptibility=_known(usable.zeta[index]),
        train_accuracy=_known(usable.values("train_accuracy")[index]),
        region=int(region[place]) or None,
        test_accuracy=_known(usable.values("test_accuracy")[index]),
        validation_accuracy=_known(usable.values("validation_accuracy")[index]),
        score=None if verdict.score is None else _known(verdict.score[index]),
        interval=verdict.interval,
        path=usable.table.paths.get(name),
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
