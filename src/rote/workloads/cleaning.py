"""Cleaned copies of data: drop or relabel suspected label errors, and compare the retrained run."""

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rote.arguments import check_number, check_path
from rote.errors import InputError, quote
from rote.selection import RankedLabel, SuspectRanking, rank_suspects, read_runs, select
from rote.store import (
    OUT_OF_SAMPLE_FILE,
    WORKLOAD_FILE,
    RunTable,
    check_data_unchanged,
    make_csv,
    read_predictions,
    read_run,
    replace_file,
    unescape_cell,
    write_whole,
)
from rote.workloads.data.arrays import ArrayFile
from rote.workloads.data.dataset import Array, Labels
from rote.workloads.data.folder import list_training_files
from rote.workloads.data.lookup import find_data_path, load
from rote.workloads.data.splits import divide
from rote.workloads.data.table import read_frame
from rote.workloads.run_folder import read_division, read_workload
from rote.workloads.spec import FolderData, NoNoise, NpzData, RunSpec, TableData

ACTIONS = ("keep", "drop", "relabel")
DROP, RELABEL = 0.5, 0.9
"""The default probabilities of a wrong label from which samples are dropped and relabeled."""

_COLUMNS = ("sample", "file", "given", "proposed", "probability", "action")


@dataclass(frozen=True)
class LabelChange:
    """The planned change of one training sample.

    Attributes:
        sample: its row in the table, or its position in the data, from 0.
        file: its file, if it is one of a folder.
        given: its label.
        proposed: the most probable class.
        probability: that the given label is wrong.
        action: ``keep``, ``drop`` or ``relabel``.
    """

    sample: int
    file: str
    given: str
    proposed: str
    probability: float
    action: str


@dataclass(frozen=True)
class Cleaning:
    """A plan for cleaned data.

    Attributes:
        data: the original file or folder, which is never changed.
        spec: the spec of the runs, without folds.
        changes: the training samples that are dropped or relabeled, the most doubtful first.
        drop: from which probability on samples are dropped.
        relabel: from which probability on they are relabeled instead.
        noise_rate: the estimated share of wrong labels; None if nothing estimates it.
        rows: of every labeled sample, its row in the table or its position in the data.
        holdout: positions (among ``rows``) of the samples that stay as they are.
        files: the files of all samples, if they are those of a folder.
        has_scores: whether samples have scores instead of probabilities, for want of folds; these
            are dropped, never relabeled.
        run: the run whose holdout it is; None if all runs have folds.
    """

    data: Path
    spec: RunSpec = field(repr=False)
    changes: tuple[LabelChange, ...] = field(repr=False)
    drop: float
    relabel: float
    noise_rate: float | None
    rows: Labels = field(repr=False)
    holdout: Labels = field(repr=False)
    files: tuple[str, ...] = field(default=(), repr=False)
    has_scores: bool = False
    run: Path | None = None

    def count(self, action: str) -> int:
        """Count the samples with an action."""
        return sum(change.action == action for change in self.changes)

    def to_csv(self) -> str:
        """Return the changes as a table, which ``review`` reads after you have edited it."""
        rows = [
            [one.sample, one.file, one.given, one.proposed, f"{one.probability:.4f}", one.action]
            for one in self.changes
        ]
        return make_csv([_COLUMNS, *rows])


def plan_cleaning(
    runs: Path | str | Sequence[Path | str] | RunTable,
    *,
    drop: float = DROP,
    relabel: float = RELABEL,
    review: Path | str | None = None,
    data_dir: Path | str | None = None,
) -> Cleaning:
    """Decide which training samples to drop and which to relabel; nothing is written.

    Args:
        runs: see ``clean``.
        drop: see ``clean``.
        relabel: see ``clean``.
        review: see ``clean``.
        data_dir: see ``clean``.

    Returns:
        The plan. The holdout of a run without folds is never part of it.

    Raises:
        InputError: if nothing ranks the labels, the data have changed, or an argument does not
            fit.
        CorruptRunError: if a run is damaged.
    """
    check_number("drop", drop, least=0)
    check_number("relabel", relabel, least=0)
    table = read_runs(runs, comparable=False)  # each fold has a holdout of its own
    paths = {name: Path(path) for name, path in table.paths.items()}
    check_data_unchanged(paths.values())
    ranking = _rank(table)
    first = paths[ranking.runs[0]]
    description, division = read_workload(first), read_division(first)
    spec = RunSpec.from_dict(description["spec"])
    spec = replace(spec, probe=replace(spec.probe, folds=None, fold=0))
    source = find_data_path(_check_cleanable(spec), data_dir)
    assert source is not None  # the data are a file or a folder
    names = _read_names(description)
    rows = division.get("table_rows", division["rows"]).astype(np.int64)
    run, holdout = _find_holdout(spec, paths.values(), len(rows))
    protected = set(rows[holdout].tolist())
    suspected = [one for one in ranking.samples if one.sample not in protected]
    changes = [_decide(one, names, drop, relabel) for one in suspected]
    plan = Cleaning(
        source,
        spec,
        tuple(change for change in changes if change.action != "keep"),
        drop,
        relabel,
        ranking.noise_rate,
        rows,
        holdout,
        tuple(map(str, division.get("files", ()))),
        has_scores=any(one.is_score for one in suspected),
        run=run,
    )
    return plan if review is None else replace(plan, changes=_read_review(review, changes, names))


def _rank(table: RunTable) -> SuspectRanking:
    """Return the list that ``rote suspects`` shows.

    Raises:
        InputError: if nothing was recorded to rank labels by, or the runs are on different data.
    """
    try:
        rankings = rank_suspects(table)
    except InputError as error:
        raise InputError(
            f"{error} Or train with folds: rote train --data FILE --folds 5."
        ) from error
    if len(rankings) > 1 or not any(one.split == "train" for one in rankings[0].samples):
        raise InputError(
            "Cleaning needs runs on one data set that judge its training samples. Train some with "
            "folds: rote train --data FILE --folds 5."
        )
    return rankings[0]


def _decide(one: RankedLabel, names: Sequence[str], drop: float, relabel: float) -> LabelChange:
    """Decide on one sample; a score that is not a probability never relabels."""
    assert one.given is not None  # the runs are those of a spec, which knows its labels
    given = names[one.given]
    proposed = given if one.proposed is None else names[one.proposed]
    action = "drop" if one.probability >= drop else "keep"
    if one.probability >= relabel and proposed != given and not one.is_score:
        action = "relabel"
    return LabelChange(one.sample, one.file or "", given, proposed, one.probability, action)


def clean(
    runs: Path | str | Sequence[Path | str] | RunTable,
    out: Path | str,
    *,
    drop: float = DROP,
    relabel: float = RELABEL,
    review: Path | str | None = None,
    data_dir: Path | str | None = None,
) -> Cleaning:
    """Write a cleaned copy of the data that runs were trained on; the original is not changed.

    Args:
        runs: runs on one file or folder, or their table, best with folds
            (``rote train --data FILE --folds 5``). They are ranked as ``rote suspects`` does.
            Without folds, samples have scores instead of probabilities, and are dropped, never
            relabeled. The holdout of a run without folds is left alone.
        out: the copy: a table, an ``.npz``, an ``.npy`` of labels (−1 for dropped samples), or a
            folder, which gets links to the original files. It must not exist yet.
        drop: samples whose label is wrong with at least this probability are dropped.
        relabel: from this probability on, they are relabeled instead. Above 1 means never.
        review: a table of changes, as ``Cleaning.to_csv`` gives it, with ``action`` edited by
            hand; it replaces both probabilities.
        data_dir: where else to look for the data; ``ROTE_DATA`` by default.

    Returns:
        What was changed; it is also written to ``OUT.changes.csv``, and the positions of the
        untouched holdout to ``OUT.holdout.npy``.

    Raises:
        InputError: if nothing ranks the labels, the data have changed, an argument does not fit,
            or ``out`` exists or is of another kind than the data.
        CorruptRunError: if a run is damaged.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> from rote.workloads import suggest_spec, train_folds
        >>> folder = Path(tempfile.mkdtemp())
        >>> pl.DataFrame({"x": [float(i % 20) for i in range(120)],
        ...     "y": [i % 20 < 10 for i in range(120)]},
        ...     ).cast({"y": pl.Int64}).write_csv(folder / "my.csv")
        >>> spec = replace(suggest_spec(folder / "my.csv", label="y"), epochs=2)
        >>> runs = train_folds(spec, folder / "folds", 2)
        >>> done = clean([run.path for run in runs], folder / "cleaned.csv")
        >>> (folder / "cleaned.csv").exists()
        True
    """
    plan = plan_cleaning(runs, drop=drop, relabel=relabel, review=review, data_dir=data_dir)
    write_cleaned(plan, out)
    return plan


def write_cleaned(plan: Cleaning, out: Path | str) -> None:
    """Write the cleaned copy of a plan, its changes and its holdout beside it.

    Raises:
        InputError: if ``out`` exists, or is of another kind than the data.
    """
    path = check_path("out", out)
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already. Choose another name for the cleaned data.")
    path.parent.mkdir(parents=True, exist_ok=True)
    data = plan.spec.data
    if isinstance(data, TableData):
        _write_table(plan, data, path)
    elif isinstance(data, NpzData):
        _write_arrays(plan, data, path)
    else:
        _link_folder(plan, path)
    write_whole(changes_file(path), plan.to_csv().encode(errors="surrogateescape"))
    with replace_file(get_holdout_path(path)) as draft, draft.open("wb") as file:
        np.save(file, _move_holdout(plan, path))


def changes_file(out: Path) -> Path:
    """Return the path of the list of changes of a cleaned copy."""
    return out.with_name(f"{out.name}.changes.csv")


def get_holdout_path(out: Path) -> Path:
    """Return the path of the positions of a cleaned copy's untouched holdout."""
    return out.with_name(f"{out.name}.holdout.npy")


def _move_holdout(plan: Cleaning, out: Path) -> Labels:
    """Return the positions of the holdout in the cleaned data."""
    if plan.files:  # a file with another label has another place
        places = {name: place for place, name in enumerate(list_training_files(out))}
        return np.array([places[plan.files[at]] for at in plan.holdout], dtype=np.int64)
    dropped = [change.sample for change in plan.changes if change.action == "drop"]
    gaps = np.flatnonzero(np.isin(plan.rows, dropped))
    moved: Labels = plan.holdout - np.searchsorted(gaps, plan.holdout)
    return moved


def _write_table(plan: Cleaning, data: TableData, out: Path) -> None:
    if out.suffix.lower() not in (".csv", ".tsv", ".parquet"):
        raise InputError(f"Expected `out` to be a table as {plan.data.name} is, got {out}.")
    frame = read_frame(plan.data, data.label)
    labels = frame[data.label].to_list()
    for change in plan.changes:
        if change.action == "relabel":
            labels[change.sample] = change.proposed
    kind = frame[data.label].dtype
    column = pl.Series(data.label, [None if x is None else str(x) for x in labels]).cast(kind)
    kept = np.ones(len(frame), dtype=bool)
    kept[[change.sample for change in plan.changes if change.action == "drop"]] = False
    cleaned = frame.with_columns(column).filter(pl.Series(kept))
    with replace_file(out) as draft:
        if out.suffix.lower() == ".parquet":
            cleaned.write_parquet(draft)
        else:
            cleaned.write_csv(draft, separator="\t" if out.suffix.lower() == ".tsv" else ",")


def _write_arrays(plan: Cleaning, data: NpzData, out: Path) -> None:
    if out.suffix not in (".npz", ".npy"):
        raise InputError(f"Expected `out` to be an .npz, or an .npy of labels, got {out}.")
    file = ArrayFile(plan.data)
    names = ("y_train",) if data.labels is None else (f"y_train_{data.labels}", f"y_{data.labels}")
    name = next(name for name in names if name in file)
    labels = file.read(name).astype(np.int64)
    used = np.flatnonzero(labels >= 0)
    known = list(map(str, file.read("class_names"))) if "class_names" in file else []
    for change in plan.changes:
        place = used[change.sample]
        label = known.index(change.proposed) if known else int(change.proposed)
        labels[place] = label if change.action == "relabel" else -1
    with replace_file(out) as draft, draft.open("wb") as opened:
        if out.suffix == ".npy":
            np.save(opened, labels)
        else:
            arrays: dict[str, Any] = {one: file.read(one) for one in file.names} | {name: labels}
            np.savez(opened, **arrays)


def _link_folder(plan: Cleaning, out: Path) -> None:
    if out.suffix:
        raise InputError(f"Expected `out` to be a folder, as {plan.data.name} is, got {out}.")
    if (plan.data / "train.txt").is_file():
        raise InputError(f"{plan.data} is a list of images; only subfolders can be cleaned.")
    changes = {change.file: change for change in plan.changes}
    files = [file for file in sorted(plan.data.rglob("*")) if file.is_file()]
    for file in files:
        name = file.relative_to(plan.data).as_posix()
        change = changes.get(name)
        if change is not None and change.action == "drop":
            continue
        if change is not None:
            depth = 1 if Path(name).parts[0] == "train" and (plan.data / "train").is_dir() else 0
            parts = list(Path(name).parts)
            # The old class stays in the name: two classes may have files of one name.
            parts[-1] = f"{parts[depth]}-{parts[-1]}"
            parts[depth] = change.proposed
            name = str(Path(*parts))
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(os.path.relpath(file.resolve(), target.parent.resolve()))


def _read_review(
    review: Path | str, changes: Iterable[LabelChange], names: Sequence[str]
) -> tuple[LabelChange, ...]:
    """Read changes that were edited by hand; they may name every training sample."""
    path = check_path("review", review)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"Cannot read {path}: {error}.") from error
    known = {change.sample: change for change in changes}
    found = []
    for number, row in enumerate(rows, start=2):
        action, proposed = row.get("action") or "", unescape_cell(row.get("proposed") or "")
        where = f"line {number} of {path}"
        if action not in ACTIONS:
            raise InputError(
                f"Expected `action` in {where} to be one of {', '.join(ACTIONS)}, got "
                f"{quote(action)}."
            )
        if proposed not in names:
            raise InputError(
                f"Expected `proposed` in {where} to be one of {', '.join(names)}, got "
                f"{quote(proposed)}."
            )
        sample = row.get("sample") or ""
        if not sample.isdecimal() or int(sample) not in known:
            raise InputError(
                f"Expected `sample` in {where} to be a training sample, got {quote(sample)}. "
                "Holdout samples stay as they are."
            )
        found.append(replace(known[int(sample)], proposed=proposed, action=action))
    return tuple(change for change in found if change.action != "keep")


def _check_cleanable(spec: RunSpec) -> TableData | NpzData | FolderData:
    if not isinstance(spec.data, TableData | NpzData | FolderData):
        raise InputError(
            f"Only data of your own can be cleaned (a table, arrays, a folder), not "
            f"{spec.data.name!r}."
        )
    if not isinstance(spec.noise, NoNoise) or spec.data.train_size is not None:
        raise InputError(
            "Cleaning needs runs on all labels as the file has them, without `noise` and "
            "`data.train_size` in their spec."
        )
    return spec.data


def _find_holdout(spec: RunSpec, runs: Iterable[Path], samples: int) -> tuple[Path | None, Labels]:
    """Find the samples that stay as they are, and the first run that holds them out.

    Where all runs have folds, they are the holdout that a run of the same spec without folds has.
    """
    plain = [run for run in runs if not (run / OUT_OF_SAMPLE_FILE).is_file()]
    found = [read_division(run)["holdout"] for run in plain] or [divide(spec, samples).holdout]
    holdout = np.concatenate([np.asarray(places, np.int64) for places in found])
    _, first = np.unique(holdout, return_index=True)
    return (plain[0] if plain else None), holdout[np.sort(first)]


def _read_names(description: dict[str, Any]) -> list[str]:
    data = description["data"]
    return list(map(str, data.get("class_names") or range(data["num_classes"])))


def make_spec_to_compare(
    run: Path | str, cleaned: Path | str, *, data_dir: Path | str | None = None
) -> RunSpec:
    """Return the spec of a run, on its cleaned data and with its own holdout.

    Args:
        run: the directory of a run without folds.
        cleaned: data that ``clean`` wrote.
        data_dir: where else to look for data; ``ROTE_DATA`` by default.

    Returns:
        A spec for ``train``, after which ``compare_on_holdout`` compares both runs. Label column,
        truth and all settings are those of the run.

    Raises:
        InputError: if ``run`` is not a run of ``rote train``, ``clean`` did not write the data, or
            the holdout of the data is not the run's.
        CorruptRunError: if the run is damaged.
    """
    before, path = check_path("run", run), check_path("cleaned", cleaned)
    rows = get_holdout_path(path)
    if not rows.is_file():
        raise InputError(
            f"`rote clean` did not write {path}: there is no {rows}. Compare with data of "
            "`rote clean RUNS --out FILE`."
        )
    if not (before / WORKLOAD_FILE).is_file():
        has_folds = any(before.glob(f"*/{OUT_OF_SAMPLE_FILE}"))
        what = "holds runs with folds, whose holdouts differ" if has_folds else "is not a run"
        raise InputError(
            f"{before} {what}. Name a run without folds on the original data, which "
            "`rote train --data FILE` trains."
        )
    description = read_workload(before)
    spec = RunSpec.from_dict(description["spec"])
    section = _check_cleanable(spec)
    data = replace(section, path=str(path))
    found = load(data, data_dir)
    names = np.array(found.class_names or list(map(str, range(found.num_classes))))
    labels = names[found.y_train[np.load(rows)]]
    if not np.array_equal(labels, _read_holdout_labels(before, description)):
        raise InputError(
            f"The holdout of {path} is not that of {before}. Clean the data that {before} was "
            "trained on, with its folds: rote clean RUNS --out FILE."
        )
    probe = replace(spec.probe, holdout_rows=str(rows), holdout_size=None)
    return replace(spec, name=path.stem, data=data, probe=probe)


def _read_holdout_labels(run: Path, description: dict[str, Any]) -> Array:
    """Return the given labels of a run's holdout, by name."""
    division = read_division(run)
    labels = division["labels"][division["holdout"]].astype(np.int64)
    return np.array(_read_names(description))[labels]


@dataclass(frozen=True)
class HoldoutComparison:
    """Two runs on the same holdout samples, with their original given labels.

    Attributes:
        samples: how many.
        before: the share of given labels that the selected checkpoint of the first run predicts.
        after: that of the second run.
        difference: ``after − before``.
        margin: half of the 95 % interval of the difference, paired by sample.
    """

    samples: int
    before: float
    after: float
    difference: float
    margin: float

    def __str__(self) -> str:
        low, high = (100 * (self.difference + sign * self.margin) for sign in (-1, 1))
        return (
            f"On the same {self.samples:,} holdout samples with their original labels: "
            f"{self.before:.1%} before, {self.after:.1%} now, {100 * self.difference:+.1f} points "
            f"(95% interval {low:+.1f} to {high:+.1f})."
        )


def compare_on_holdout(before: Path | str, after: Path | str) -> HoldoutComparison:
    """Compare the selected checkpoints of two runs on the holdout that they share.

    Args:
        before: the directory of a run.
        after: that of another one, trained with ``--compare-with`` the first.

    Returns:
        Both shares of predicted given labels, and the difference with its interval.

    Raises:
        InputError: if the runs do not share their holdout, or its labels differ.
    """
    hits = []
    labels = []
    for run in (Path(before), Path(after)):
        description = read_workload(run)
        record = read_run(run)
        step = select(run).pick.step
        row = next(at for at, reading in enumerate(record.readings) if reading.step == step)
        rows = read_predictions(record)
        if rows is None:
            raise InputError(f"{run} has recorded no predictions on its holdout.")
        predicted = np.array(_read_names(description))[np.asarray(rows[row], dtype=np.int64)]
        labels.append(_read_holdout_labels(run, description))
        hits.append(predicted == labels[-1])
    if not np.array_equal(labels[0], labels[1]):
        raise InputError(
            f"{before} and {after} do not have the same holdout with the same given labels. Train "
            f"the second one with --compare-with {before}."
        )
    return compare_hits(*hits)


def compare_hits(before: Array, after: Array) -> HoldoutComparison:
    """Compare which labels two models predict.

    The interval is that of Bonett and Price (2012) for paired proportions: one is added to the
    samples that only one of the two predicts. It does not shrink to nothing where they agree.

    Args:
        before: whether the first model predicts the label, by sample.
        after: the same of the second model.
    """
    samples = len(before)
    gained, lost = (
        (np.sum(one & ~other) + 1) / (samples + 2)
        for one, other in ((after, before), (before, after))
    )
    margin = 1.96 * float((gained + lost - (gained - lost) ** 2) / (samples + 2)) ** 0.5
    shares = float(before.mean()), float(after.mean())
    return HoldoutComparison(samples, *shares, shares[1] - shares[0], margin)
