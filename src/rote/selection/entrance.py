"""The front door: read, judge, explain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.selection.candidates import Candidates, candidates_of
from rote.selection.doubts import doubts
from rote.selection.record import Pick, Selection
from rote.selection.regions import regions_of, summarise
from rote.selection.rules import RULES, find_rule
from rote.selection.thresholds import paper_thresholds
from rote.store import RunTable, read_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from rote.selection.rule import Rule, Verdict


def select(
    runs: Path | str | Sequence[Path | str] | RunTable,
    rule: str | Rule = "regions",
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
        rule: the name of a rule in ``RULES``, or a rule of your own.
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
    if mapping and isinstance(runs, RunTable):
        raise InputError("Expected `mapping` to go with runs to read, got a table. Pass it there.")
    table = runs if isinstance(runs, RunTable) else read_table(runs, mapping)
    everything = candidates_of(table, column)
    usable = usable_for(judge, everything)
    verdict = judge.judge(usable)
    thresholds = dict(verdict.thresholds)
    if not thresholds.keys() >= {"susceptibility", "train_accuracy"}:
        thresholds = paper_thresholds(everything) | thresholds
    region = regions_of(everything, thresholds)
    summary = summarise(everything, region)
    return Selection(
        rule=judge.name,
        column=column,
        thresholds=thresholds,
        pick=_pick(everything, usable, verdict, region),
        table=_table(everything, usable, verdict, region),
        regions=summary,
        reasons=(f"Rule `{judge.name}`, by `{column}`.", *verdict.reasons),
        warnings=(*doubts(everything, usable, judge, verdict, summary), *verdict.warnings),
    )


def usable_for(rule: Rule, candidates: Candidates) -> Candidates:
    """The candidates that have what a rule needs.

    Raises:
        InputError: if none has.
    """
    if not len(candidates):
        raise InputError("Expected `runs` to have checkpoints, got none. Probe at least once.")
    known = np.ones(len(candidates), dtype=np.bool_)
    for need in rule.needs:
        known &= np.isfinite(getattr(candidates, need))
        if not known.any():
            name = candidates.column if need == "susceptibility" else need
            others = [other for other, kind in RULES.items() if need not in kind.needs]
            raise InputError(
                f"Expected `{name}` to be recorded for rule {rule.name!r}, got no checkpoint with "
                f"a finite one among {len(candidates)}. Record it, or use a rule that does without "
                f"({', '.join(others)})."
            )
    return candidates if known.all() else candidates.take(known)


def _pick(
    everything: Candidates, usable: Candidates, verdict: Verdict, region: npt.NDArray[np.int8]
) -> Pick:
    index = verdict.pick
    name = usable.runs[usable.run[index]]
    place = int(np.flatnonzero(everything.position == usable.position[index])[0])
    return Pick(
        run=name,
        step=int(usable.step[index]),
        susceptibility=_known(usable.susceptibility[index]),
        train_accuracy=_known(usable.train_accuracy[index]),
        region=int(region[place]) or None,
        test_accuracy=_known(usable.test_accuracy[index]),
        validation_accuracy=_known(usable.validation_accuracy[index]),
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
    if verdict.score is not None:
        score = np.full(len(everything), np.nan)
        score[usable.position] = verdict.score
        columns.append(pl.Series("score", score).fill_nan(None))
    return everything.table.frame.with_columns(columns)


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
