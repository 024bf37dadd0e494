"""Cleaned copies of data: drop or relabel suspected label errors, and compare the retrained run."""

import csv
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rote.arguments import check_number, check_path
from rote.errors import CorruptRunError, InputError, shown
from rote.selection import RankedLabel, SuspectRanking, rank_suspects, select
from rote.store import (
    DAMAGED_ARRAYS,
    LABELS_FILE,
    WORKLOAD_FILE,
    RunTable,
    check_data_unchanged,
    make_csv,
    read_predictions,
    read_run,
    read_table,
    unescape_cell,
    whole_file,
    write_whole,
)
from rote.workloads.data.arrays import ArrayFile
from rote.workloads.data.dataset import Array, Labels
from rote.workloads.data.folder import list_training_files
from rote.workloads.data.lookup import find_data_path
from rote.workloads.data.splits import divide
from rote.workloads.data.table import read_frame
from rote.workloads.spec import FolderData, NoNoise, NpzData, RunSpec, TableData

ACTIONS = ("keep", "drop", "relabel")
DROP, RELABEL = 0.5, 0.9
"""By default, from which probability of a wrong label a sample is dropped, and relabeled."""

_COLUMNS = ("sample", "file", "given", "proposed", "probability", "action")


@dataclass(frozen=True)
class LabelChange:
    """What becomes of one training sample.

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
        spec: the spec of the runs.
        changes: the training samples that are dropped or relabeled, the most doubtful first.
        drop: from which probability on samples are dropped.
        relabel: from which probability on they are relabeled instead.
        noise_rate: the estimated share of wrong labels; None if nothing estimates it.
        samples: how many samples the data have.
        holdout: positions of the samples that stay as they are.
        files: the files of all samples, if they are those of a folder.
        has_scores: whether samples have scores instead of probabilities, for want of folds; these
            are dropped, never relabeled.
    """

    data: Path
    spec: RunSpec
    changes: tuple[LabelChange, ...]
    drop: float
    relabel: float
    noise_rate: float | None
    samples: int
    holdout: Labels
    files: tuple[str, ...] = ()
    has_scores: bool = False

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
    runs: Path | str | Sequence[Path | str],
    *,
    drop: float = DROP,
    relabel: float = RELABEL,
    review: Path | str | None = None,
    data_dir: Path | str | None = None,
) -> Cleaning:
    """Decide which training samples to drop and which to relabel; nothing is written.

    Args:
        runs: runs on one file or folder, best with folds (``rote train --data FILE --folds 5``);
            they are ranked as ``rote suspects`` does. Without folds, samples have scores instead
            of probabilities, and are dropped, never relabeled. The holdout of a run without folds
            is left alone.
        drop: samples whose label is wrong with at least this probability are dropped, …
        relabel: … or relabeled, from this probability on. Above 1 means never.
        review: a table of changes, as ``Cleaning.to_csv`` gives it, with ``action`` edited by
            hand; it replaces both probabilities.
        data_dir: where else to look for the data; ``ROTE_DATA`` by default.

    Returns:
        The plan. The holdout of a run without folds is never part of it.

    Raises:
        InputError: if nothing ranks the labels, the data have changed, or an argument does not
            fit.
        CorruptRunError: if a run is damaged.
    """
    check_number("drop", drop, least=0)
    check_number("relabel", relabel, least=0)
    # Not as `select` reads them: each fold has a holdout of its own.
    table = read_table(runs)
    paths = {name: Path(path) for name, path in table.paths.items()}
    check_data_unchanged(paths.values())
    ranking = _rank(table)
    first = paths[ranking.runs[0]]
    description, division = _read_workload(first), _read_division(first)
    spec = RunSpec.from_dict(description["spec"])
    source = _check_cleanable(spec, data_dir)
    names = _read_names(description)
    protected = _find_holdout(spec, paths.values(), len(division["rows"]))
    places = {int(row): at for at, row in enumerate(division.get("table_rows", division["rows"]))}
    suspected = [one for one in ranking.samples if places[one.sample] not in protected]
    changes = [_decide(one, names, drop, relabel) for one in suspected]
    plan = Cleaning(
        source,
        spec,
        tuple(change for change in changes if change.action != "keep"),
        drop,
        relabel,
        ranking.noise_rate,
        len(division["rows"]),
        np.array(sorted(protected, key=protected.__getitem__), dtype=np.int64),
        tuple(map(str, division.get("files", ()))),
        has_scores=any(one.is_score for one in suspected),
    )
    return plan if review is None else replace(plan, changes=_read_review(review, plan, names))


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
    """Decide on one sample; a score, which is no probability, does not relabel."""
    assert one.given is not None  # the runs are those of a spec, which knows its labels
    given = names[one.given]
    proposed = given if one.proposed is None else names[one.proposed]
    action = "drop" if one.probability >= drop else "keep"
    if one.probability >= relabel and proposed != given and not one.is_score:
        action = "relabel"
    return LabelChange(one.sample, one.file or "", given, proposed, one.probability, action)


def clean(
    runs: Path | str | Sequence[Path | str],
    out: Path | str,
    *,
    drop: float = DROP,
    relabel: float = RELABEL,
    review: Path | str | None = None,
    data_dir: Path | str | None = None,
) -> Cleaning:
    """Write a cleaned copy of the data that runs were trained on; the original is not changed.

    Args:
        runs: as for ``plan_cleaning``.
        out: the copy: a table, an ``.npz``, an ``.npy`` of labels (−1 for dropped samples), or a
            folder, which gets links to the original files. It must not exist yet.
        drop: as for ``plan_cleaning``.
        relabel: as for ``plan_cleaning``.
        review: as for ``plan_cleaning``.
        data_dir: as for ``plan_cleaning``.

    Returns:
        What was changed; it is also written to ``OUT.changes.csv``, and the positions of the
        untouched holdout to ``OUT.holdout.npy``.

    Raises:
        InputError: as ``plan_cleaning``, or if ``out`` exists or is of another kind than the data.
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
    with whole_file(holdout_file(path)) as draft, draft.open("wb") as file:
        np.save(file, _move_holdout(plan, path))


def changes_file(out: Path) -> Path:
    """Return where the changes of a cleaned copy are listed."""
    return out.with_name(f"{out.name}.changes.csv")


def holdout_file(out: Path) -> Path:
    """Return where the positions of the untouched holdout of a cleaned copy are."""
    return out.with_name(f"{out.name}.holdout.npy")


def _move_holdout(plan: Cleaning, out: Path) -> Labels:
    """Return the positions of the holdout in the cleaned data."""
    if plan.files:  # a file with another label has another place
        places = {name: place for place, name in enumerate(list_training_files(out))}
        return np.array([places[plan.files[at]] for at in plan.holdout], dtype=np.int64)
    division = _positions(plan)
    dropped = sorted(division[change.sample] for change in plan.changes if change.action == "drop")
    moved: Labels = plan.holdout - np.searchsorted(dropped, plan.holdout)
    return moved


def _positions(plan: Cleaning) -> dict[int, int]:
    """Map the row or position of each changed sample to its place among the labeled samples."""
    if not isinstance(plan.spec.data, TableData):
        return {change.sample: change.sample for change in plan.changes}
    frame = read_frame(plan.data, plan.spec.data.label)
    labeled = _labeled_rows(frame, plan.spec.data.label)
    places = {int(row): place for place, row in enumerate(labeled)}
    return {change.sample: places[change.sample] for change in plan.changes}


def _labeled_rows(frame: pl.DataFrame, label: str) -> Labels:
    """Return the rows of training samples with a label, as they are when the table is read."""
    is_used = frame[label].is_not_null()
    if "split" in frame.columns:
        told = frame["split"].cast(pl.String).str.to_lowercase()
        is_used = is_used & told.is_in(["train", "training"]).fill_null(value=False)
    return np.flatnonzero(is_used.to_numpy())


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
    with whole_file(out) as draft:
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
    with whole_file(out) as draft, draft.open("wb") as opened:
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
        name = str(file.relative_to(plan.data))
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


def _read_review(review: Path | str, plan: Cleaning, names: Sequence[str]) -> tuple[Any, ...]:
    """Read changes that were edited by hand."""
    path = check_path("review", review)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"Cannot read {path}: {error}.") from error
    known = {change.sample for change in plan.changes}
    found = []
    for number, row in enumerate(rows, start=2):
        action, proposed = row.get("action") or "", unescape_cell(row.get("proposed") or "")
        where = f"line {number} of {path}"
        if action not in ACTIONS:
            raise InputError(
                f"Expected `action` in {where} to be one of {', '.join(ACTIONS)}, got "
                f"{shown(action)}."
            )
        if proposed not in names:
            raise InputError(
                f"Expected `proposed` in {where} to be one of {', '.join(names)}, got "
                f"{shown(proposed)}."
            )
        sample = row.get("sample") or ""
        if not sample.isdecimal() or int(sample) not in known:
            raise InputError(
                f"Expected `sample` in {where} to be one of the plan, got {shown(sample)}."
            )
        original = next(change for change in plan.changes if change.sample == int(sample))
        found.append(replace(original, proposed=proposed, action=action))
    return tuple(change for change in found if change.action != "keep")


def _check_cleanable(spec: RunSpec, data_dir: Path | str | None) -> Path:
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
    source = find_data_path(spec.data, data_dir)
    assert source is not None  # one of the three
    return source


def _find_holdout(spec: RunSpec, runs: Iterable[Path], samples: int) -> dict[int, int]:
    """Find the samples that stay as they are, in order: those of runs without folds.

    Where all runs have folds, it is the holdout of a run of the same spec without folds.
    """
    places: dict[int, int] = {}
    for run in runs:
        if not (run / "out_of_sample.npz").is_file():
            for place in _read_division(run)["holdout"]:
                places.setdefault(int(place), len(places))
    if not places:
        plain = replace(spec, probe=replace(spec.probe, folds=None, fold=0))
        for place in divide(plain, samples).holdout:
            places.setdefault(int(place), len(places))
    return places


def _read_names(description: dict[str, Any]) -> list[str]:
    data = description["data"]
    return list(map(str, data.get("class_names") or range(data["num_classes"])))


def _read_workload(run: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((run / WORKLOAD_FILE).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CorruptRunError(f"Cannot read {run / WORKLOAD_FILE}: {error}.") from error


def _read_division(run: Path) -> dict[str, Array]:
    try:
        with np.load(run / LABELS_FILE) as found:
            return {name: found[name] for name in found.files}
    except DAMAGED_ARRAYS as error:
        raise CorruptRunError(f"Cannot read {run / LABELS_FILE}: {error}.") from error


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
        division, names = _read_division(run), _read_names(_read_workload(run))
        record = read_run(run)
        step = select(run).pick.step
        row = next(at for at, reading in enumerate(record.readings) if reading.step == step)
        rows = read_predictions(record)
        if rows is None:
            raise InputError(f"{run} has recorded no predictions on its holdout.")
        predicted = np.array(names)[np.asarray(rows[row], dtype=np.int64)]
        given = np.array(names)[division["labels"][division["holdout"]].astype(np.int64)]
        hits.append(predicted == given)
        labels.append(given)
    if not np.array_equal(labels[0], labels[1]):
        raise InputError(
            f"{before} and {after} do not have the same holdout with the same given labels. Train "
            f"the second one with --compare-with {before}."
        )
    differences = hits[1].astype(float) - hits[0]
    margin = 1.96 * float(differences.std()) / max(1, len(differences)) ** 0.5
    shares = float(hits[0].mean()), float(hits[1].mean())
    return HoldoutComparison(len(differences), *shares, float(differences.mean()), margin)
