"""Selecting a checkpoint: read runs, let a rule decide, describe the decision."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError, did_you_mean, quote
from rote.interpretation import read_start
from rote.records import COLUMNS
from rote.selection.candidates import ZETA, Candidates, as_shares, find_range, make_candidates
from rote.selection.groups import check_comparable, filter_runs, group_runs
from rote.selection.regions import compute_paper_thresholds, find_regions, summarize
from rote.selection.rule import Decision, Reason
from rote.selection.rules import RULES, find_rule
from rote.selection.rules.noisy_validation import compare_on_labels
from rote.selection.selection import ESTIMATE, Baseline, Pick, Selection, grade_evidence
from rote.selection.warnings import list_warnings
from rote.store import RunTable, read_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from rote.selection.rule import Findings, Rule

DEFAULT_RULE = "auto"
"""The strongest rule that the recorded data allow."""


def select(
    runs: Path | str | Sequence[Path | str] | RunTable,
    rule: str | Rule = DEFAULT_RULE,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    percent: bool = False,
    **options: Any,  # noqa: ANN401
) -> Selection:
    r"""Select the checkpoint to keep; ``print`` the result.

    Args:
        runs: a run directory, a directory of run directories, a source
            (``mlflow:EXPERIMENT[@uri]``, ``tensorboard:LOGDIR``, ``csv:FILE``,
            ``package.module:Name:PLACE``), a list of any of these, or a table.
        rule: the name of a rule in ``RULES``; ``max:COLUMN`` or ``min:COLUMN`` for any recorded
            column; or your own rule, as an object or as ``package.module:Name``.
        column: which ζ to use: ``susceptibility`` (live step), ``susceptibility_plain`` (reference
            step), or either with the suffix ``_relative`` (relative to the loss before the step).
        mapping: where metrics have other names than rote's: from rote's name to theirs, such as
            ``{"susceptibility": "my_metric"}``.
        where: select among runs with these properties only, by dotted names of ``run.json``, the
            description of their data and their spec, such as ``{"data.name": "digits"}``.
        percent: divide accuracies above 1 by 100; they were recorded in percent.
        options: options of the rule, such as ``t1=40`` for ``percentile``.

    Returns:
        The selected checkpoint with its evidence, reasons and warnings.

    Raises:
        InputError: if there is no such rule, column, option, run, source or metric, no checkpoint
            has what the rule needs, or the runs cannot be compared because their data, classes,
            labels or holdouts differ.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     table = "step,train_accuracy,validation_accuracy\n1,0.5,0.4\n2,0.9,0.3\n"
        ...     _ = (Path(folder) / "a.csv").write_text(table)
        ...     print(select(f"csv:{folder}/a.csv").headline)
        Keep step 1 of a
    """
    judge = find_rule(rule, options)
    table = read_runs(runs, mapping, where=where, percent=percent)
    found = choose(judge, make_candidates(table, column))
    return found if isinstance(runs, RunTable) else replace(found, source=_quote(runs))


def select_groups(
    runs: Path | str | Sequence[Path | str] | RunTable,
    by: str,
    rule: str | Rule = DEFAULT_RULE,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    percent: bool = False,
    **options: Any,  # noqa: ANN401
) -> dict[str, Selection]:
    """Select a checkpoint of every group of runs; the arguments are those of ``select``.

    Args:
        runs: see ``select``.
        by: the property to group by: a dotted name as in ``where``, such as ``data.name``.
        rule: see ``select``.
        column: see ``select``.
        mapping: see ``select``.
        where: see ``select``.
        percent: see ``select``.
        options: see ``select``.

    Returns:
        One selection per group, by the value that its runs have in common.

    Raises:
        InputError: as for ``select``, of any group.

    Example:
        >>> import polars as pl
        >>> from rote.store import RunTable
        >>> frame = pl.DataFrame({"run": ["a", "b"], "row": [0, 0], "step": [1, 1],
        ...     "train_accuracy": [0.5, 0.6]})
        >>> table = RunTable(frame, {"a": {"num_classes": 2}, "b": {"num_classes": 10}})
        >>> found = select_groups(table, "num_classes", "last")
        >>> {value: selection.pick.run for value, selection in found.items()}
        {'2': 'a', '10': 'b'}
    """
    judge = find_rule(rule, options)
    groups = read_groups(runs, by, mapping, where=where, percent=percent)
    return {value: choose(judge, make_candidates(part, column)) for value, part in groups.items()}


def read_runs(
    runs: Path | str | Sequence[Path | str] | RunTable,
    mapping: Mapping[str, str] | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    percent: bool = False,
    comparable: bool = True,
) -> RunTable:
    """Read runs into a table, unless they are one already, and check that they are comparable.

    Args:
        runs: see ``select``.
        mapping: see ``select``.
        where: see ``select``.
        percent: see ``select``.
        comparable: whether to check that; runs with folds have different holdouts.

    Returns:
        The table.

    Raises:
        InputError: if there is no run, a table comes with a mapping, or runs must not be compared.
    """
    table = _read(runs, mapping, where, percent)
    if comparable:
        check_comparable(table)
    return table


def read_groups(
    runs: Path | str | Sequence[Path | str] | RunTable,
    by: str,
    mapping: Mapping[str, str] | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    percent: bool = False,
) -> dict[str, RunTable]:
    """Read runs into one table per group, by their values under a dotted name.

    Raises:
        InputError: as for ``table_of``, of any group; or if no run has a value under that name.
    """
    groups = group_runs(_read(runs, mapping, where, percent), by)
    for part in groups.values():
        check_comparable(part)
    return groups


def _read(
    runs: Path | str | Sequence[Path | str] | RunTable,
    mapping: Mapping[str, str] | None,
    where: Mapping[str, Any] | None,
    percent: bool,
) -> RunTable:
    if not isinstance(runs, RunTable):
        table = read_table(runs, mapping)
    elif mapping:
        raise InputError(
            "A table of runs takes no `mapping`. Pass it to the function that reads them."
        )
    else:
        table = runs
    table = filter_runs(table, where) if where else table
    return as_shares(table) if percent else table


def _quote(runs: Path | str | Sequence[Path | str]) -> str:
    """Return runs as arguments of a shell command."""
    places = [runs] if isinstance(runs, Path | str) else runs
    return " ".join(shlex.quote(str(place)) for place in places)


def choose(rule: Rule, candidates: Candidates) -> Selection:
    """Let a rule decide among candidates, and describe its decision.

    Args:
        rule: the rule.
        candidates: all checkpoints.

    Returns:
        The selection.

    Raises:
        InputError: if none has what the rule needs, or the rule returns something else.
    """
    usable = keep_usable(rule, candidates)
    decision = rule.judge(usable)
    if not isinstance(decision, Decision):
        raise InputError(
            f"Rule {rule.name!r} returned {quote(decision)}. Return a rote.selection.Decision."
        )
    decided_by = decision.by or rule
    if decision.column is not None:
        candidates = replace(candidates, column=decision.column)
        usable = replace(usable, column=decision.column)
    thresholds = dict(decision.thresholds)
    has_regions = thresholds.keys() >= {"susceptibility", "train_accuracy"}
    if not has_regions:
        thresholds = compute_paper_thresholds(candidates) | thresholds
    region = find_regions(candidates, thresholds)
    summary = summarize(candidates, region)
    pick = _pick(candidates, usable, decision, region)
    warnings = list_warnings(candidates, usable, decided_by, decision, summary)
    return Selection(
        rule=decided_by.name,
        column=candidates.column,
        thresholds=thresholds,
        pick=pick,
        table=_make_table(candidates, usable, decision, region),
        regions=summary,
        reasons=_list_reasons(decided_by, candidates, decision),
        warnings=(*warnings, *decision.warnings),
        evidence=grade_evidence(decided_by, decision, usable.num_runs),
        has_regions=has_regions,
        baselines=_compare_with_baselines(usable, decision),
        start=read_start(candidates.table.descriptions.get(pick.run, {})),
        source=_find_source(pick, usable.num_runs),
        **vars(_compare_with_last(usable, decision)),
    )


def _compare_with_last(usable: Candidates, decision: Decision) -> Findings:
    """Return the findings; what a rule leaves open of the last checkpoint, given labels may say."""
    findings = decision.findings
    if findings.beats_last is not None or ESTIMATE in decision.columns:
        return findings
    last = RULES["last"]().judge(usable).pick
    return replace(findings, beats_last=compare_on_labels(usable, decision.pick, last))


def _list_reasons(rule: Rule, candidates: Candidates, decision: Decision) -> tuple[Reason, ...]:
    """Return the reasons of a decision, which rule decided first."""
    if any(reason.kind == "rule" for reason in decision.why):
        return decision.why
    by = f", by `{candidates.column}`" if "zeta" in rule.needs else ""
    first = Reason("rule", f"Rule: {rule.name}{by}.", {"rule": rule.name})
    return (first, *decision.why)


def _find_source(pick: Pick, runs: int) -> str | None:
    if pick.path is None:
        return None
    return shlex.quote(str(pick.path if runs == 1 else pick.path.parent))


def _compare_with_baselines(usable: Candidates, decision: Decision) -> tuple[Baseline, ...]:
    """Compare by estimate, or by the given labels of the holdout; and by test accuracy."""
    estimated = decision.columns.get(ESTIMATE)
    measured = {"validation_accuracy": usable.values("validation_accuracy")}
    columns = measured if estimated is None else {ESTIMATE: estimated}
    columns["test_accuracy"] = usable.values("test_accuracy")
    last = RULES["last"]().judge(usable).pick
    return tuple(
        Baseline(
            name,
            float(values[decision.pick]),
            float(values[last]) if np.isfinite(values[last]) else None,
            *(find_range(values) if values is estimated else usable.find_range(name)),
        )
        for name, values in columns.items()
        if np.isfinite(values[decision.pick])
    )


def keep_usable(rule: Rule, candidates: Candidates) -> Candidates:
    """Return the candidates that have what a rule needs.

    Args:
        rule: the rule.
        candidates: all checkpoints.

    Returns:
        Those with finite values in all columns that the rule needs.

    Raises:
        InputError: if there are none.
    """
    if not len(candidates):
        raise InputError(
            "The runs have no checkpoints yet. The first one appears after the first probe."
        )
    for count, need in enumerate(rule.needs, start=1):
        if not candidates.known(*rule.needs[:count]).any():
            name = candidates.column if need == ZETA else need
            others = [other for other, kind in RULES.items() if need not in kind.needs]
            known = candidates.table.columns
            guess = "" if name in known or name in COLUMNS else did_you_mean(name, known)
            raise InputError(
                f"Rule {rule.name!r} needs `{name}`, and none of the {len(candidates)} checkpoints "
                f"has a finite one.{guess} Record it, or use a rule that does not need it "
                f"({', '.join(others)})."
            )
    usable = candidates.known(*rule.needs)
    return candidates if usable.all() else candidates.take(usable)


def _pick(
    everything: Candidates, usable: Candidates, decision: Decision, region: npt.NDArray[np.int8]
) -> Pick:
    index = decision.pick
    name = usable.runs[usable.run[index]]
    path, step = usable.table.paths.get(name), int(usable.step[index])
    place = int(np.flatnonzero(everything.position == usable.position[index])[0])
    return Pick(
        run=name,
        step=step,
        susceptibility=_drop_nan(usable.zeta[index]),
        train_accuracy=_drop_nan(usable.values("train_accuracy")[index]),
        region=int(region[place]) or None,
        test_accuracy=_drop_nan(usable.values("test_accuracy")[index]),
        validation_accuracy=_drop_nan(usable.values("validation_accuracy")[index]),
        score=None if decision.score is None else _drop_nan(decision.score[index]),
        interval=decision.interval,
        path=path,
        file=usable.table.find_checkpoint(name, step),
    )


def _make_table(
    everything: Candidates, usable: Candidates, decision: Decision, region: npt.NDArray[np.int8]
) -> Any:  # noqa: ANN401
    import polars as pl

    placed = np.zeros(len(everything), dtype=np.int8)
    placed[everything.position] = region
    columns = [pl.Series("region", placed)]
    if not placed.all():
        columns = [columns[0].replace(0, None)]
    known = {} if decision.score is None else {"score": decision.score}
    for name, values in {**known, **decision.columns}.items():
        column = np.full(len(everything), np.nan)
        column[usable.position] = values
        columns.append(pl.Series(name, column).fill_nan(None))
    return everything.table.frame.with_columns(columns)


def _drop_nan(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
