"""Training samples whose label is probably wrong, by what runs have recorded per sample."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from rote.errors import CorruptRunError, InputError
from rote.records import ZETAS
from rote.selection.candidates import candidates_of
from rote.selection.groups import take_runs
from rote.selection.rules import find_rule
from rote.selection.select_checkpoint import choose, table_of
from rote.store import DAMAGED_ARRAYS, LABELS_FILE, escape_cells

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from rote.selection.candidates import Booleans, Floats, Integers
    from rote.selection.selection import Selection
    from rote.store import RunTable

Split: TypeAlias = Literal["train", "holdout"]

METHODS = ("aum", "confident_learning")
"""Signals whose rows say, per training sample, by how much its label wins; negative is a loss."""


@dataclass(frozen=True)
class SuspectLabel:
    """A sample whose given label is probably wrong.

    Attributes:
        method: who says so: a signal of ``METHODS``, or ``posterior``.
        split: ``train``, or ``holdout`` for what was kept out of training.
        sample: its position in the data, from 0 (of a table, its row; in the training set, where
            the run does not know more).
        given: its label, if the run knows it.
        believed: the class that it probably is of, if the method says that.
        score: how suspicious it is, from 0 to 1: of the posterior, the probability that the label
            is wrong; otherwise the share of samples whose label does better, mean over runs.
        is_wrong: the truth, where the run knows it.
        file: where it is, if it is a file of a folder.
    """

    method: str
    split: Split
    sample: int
    given: int | None
    believed: int | None
    score: float
    is_wrong: bool | None
    file: str | None = None


@dataclass(frozen=True)
class Suspicion:
    """What one method says about the samples of runs that share their data.

    Attributes:
        method: who says it.
        runs: on which runs it goes.
        samples: how many samples were judged.
        suspects: the most suspicious first.
        precision: the share of suspects whose label is wrong, where that is known.
        recall: the share of wrong labels that are suspected.
        wrong: the share of labels that are wrong: the precision of a guess.
        class_names: what the classes are called, where they have names.
    """

    method: str
    runs: tuple[str, ...]
    samples: int
    suspects: tuple[SuspectLabel, ...]
    precision: float | None = None
    recall: float | None = None
    wrong: float | None = None
    class_names: tuple[str, ...] = ()

    def called(self, label: int | None) -> str:
        """A class by its name, or its number; empty if it is not known."""
        known = label is not None and 0 <= label < len(self.class_names)
        return self.class_names[label] if known and label is not None else _number(label)

    def to_json(self) -> dict[str, Any]:
        """The object that ``rote suspects --json`` lists."""
        return {**asdict(self), "suspects": [asdict(suspect) for suspect in self.suspects]}


def _number(label: int | None) -> str:
    return "" if label is None else str(label)


def find_suspects(
    runs: Path | str | Sequence[Path | str] | RunTable, judged: Selection | None = None
) -> tuple[Suspicion, ...]:
    """List the samples whose label is probably wrong, by every method that applies.

    ``aum`` and ``confident_learning`` go by the rows of the signals of these names, at the reading
    of a run with the highest validation accuracy (the last one, where there is none); a sample is
    suspected if its label loses in more than half of the runs that share their data. ``posterior``
    judges the samples of the holdout, with the rule of that name.

    Args:
        runs: run directories, folders of them, or their table.
        judged: what rule ``posterior`` says about these runs, if it was asked before.

    Returns:
        One entry per method and set of data, none of them without suspects recorded.

    Raises:
        InputError: if no method applies.
        CorruptRunError: if the labels of a run are damaged.
    """
    records = _Records(table_of(runs))
    found = [
        _by_rows(records, method, names, data)
        for method in METHODS
        for names, data in records.by_data(method)
    ]
    found += _by_posterior(records, judged)
    found = [replace(one, class_names=_class_names(records.table, one.runs[0])) for one in found]
    if not found:
        raise InputError(
            f"Expected runs that recorded rows of {' or '.join(METHODS)} (`signals = [...]`), or "
            "several with a holdout and its given labels, got none: there is nothing to suspect "
            "labels by."
        )
    return tuple(found)


def _class_names(table: RunTable, run: str) -> tuple[str, ...]:
    data = table.workload(run).get("data")
    named = data.get("class_names") if isinstance(data, dict) else None
    return tuple(map(str, named)) if isinstance(named, list) else ()


def as_csv(found: Sequence[Suspicion]) -> str:
    """All suspects as a table, one per line."""
    text = io.StringIO()
    names = [entry.name for entry in fields(SuspectLabel)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["runs", *names, "given_name", "believed_name"])
    for suspicion in found:
        for suspect in suspicion.suspects:
            values = [getattr(suspect, name) for name in names]
            called = map(suspicion.called, (suspect.given, suspect.believed))
            writer.writerow(escape_cells([" ".join(suspicion.runs), *values, *called]))
    return text.getvalue()


@dataclass(frozen=True)
class _Data:
    """The labels of a run of a spec, as far as they are known.

    Attributes:
        rows: which samples of the data were used.
        labels: their given labels.
        train: which of them were trained on.
        holdout: which of them were kept out.
        wrong: whose label is wrong.
        table_rows: which rows of their table the samples are, if it is one.
        files: which files of their folder they are, if it is one.
    """

    rows: Integers
    labels: Integers
    train: Integers
    holdout: Integers
    wrong: Booleans | None
    table_rows: Integers | None = None
    files: tuple[str, ...] = ()

    @classmethod
    def read(cls, file: Path, content: bytes) -> _Data:
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                names = ("rows", "labels", "train", "holdout")
                rows, labels, train, holdout = (np.asarray(arrays[n], np.int64) for n in names)
                wrong = np.asarray(arrays["wrong"], bool) if "wrong" in arrays.files else None
                table = arrays.get("table_rows")
                files = tuple(map(str, arrays.get("files", ())))
            places = None if table is None else np.asarray(table, np.int64)
            data = cls(rows, labels, train, holdout, wrong, places, files)
            data.key()  # an index beyond the data shows here
        except DAMAGED_ARRAYS as error:
            raise CorruptRunError(
                f"Expected {file} to hold the labels of a run, got: {error}. Restore the file."
            ) from error
        return data

    def key(self) -> tuple[bytes, ...]:
        """What is the same for runs that share their data."""
        used = self.rows[self.train], self.labels[self.train], self.rows[self.holdout]
        return tuple(part.tobytes() for part in used)

    def listed(self, method: str, split: Split, said: Iterable[_Said]) -> Iterator[SuspectLabel]:
        """Suspects by their place in the data, with the truth about them."""
        places = getattr(self, split)
        for one in said:
            at = places[one.sample]
            wrong = None if self.wrong is None else bool(self.wrong[at])
            places_in_data = self.rows if self.table_rows is None else self.table_rows
            sample, given = int(places_in_data[at]), int(self.labels[at])
            file = self.files[at] if self.files else None
            yield SuspectLabel(method, split, sample, given, one.believed, one.score, wrong, file)


@dataclass(frozen=True)
class _Said:
    """What a method says about a sample of a split."""

    sample: int
    score: float
    believed: int | None = None


class _Records:
    """What runs have recorded per sample, and their labels; the same labels are kept once."""

    def __init__(self, table: RunTable) -> None:
        self.table = table
        self._read: dict[bytes, _Data] = {}

    @cached_property
    def _readings(self) -> dict[object, pl.DataFrame]:
        frame = self.table.frame
        names = [n for n in ("run", "row", "validation_accuracy") if n in frame.columns]
        parts = frame.select(names).partition_by("run", as_dict=True)
        return {run: part for (run,), part in parts.items()}

    def by_data(self, method: str) -> list[tuple[list[str], _Data | None]]:
        """Runs with rows of a method, those that share their data together."""
        groups: dict[object, tuple[list[str], _Data | None]] = {}
        for run in self.table.descriptions:
            if self.row(run, method) is not None:
                data = self._data(run)
                key = run if data is None else data.key()
                groups.setdefault(key, ([], data))[0].append(run)
        return list(groups.values())

    def row(self, run: str, method: str) -> Floats | None:
        """The row of the reading that counts, if there is one."""
        rows = self.table.rows(run, method)
        if rows is None or run not in self._readings:
            return None
        readings = self._readings[run].filter(self._readings[run]["row"] < len(rows))
        order = readings["row"].reverse()
        if "validation_accuracy" in readings.columns and readings["validation_accuracy"].count():
            by = {"descending": True, "nulls_last": True, "maintain_order": True}
            order = readings.sort("validation_accuracy", **by)["row"]
        for row in order:
            found = np.asarray(rows[row], np.float64)
            if not np.isnan(found).all():  # a reading that was filled in has none
                return found
        return None

    def _data(self, run: str) -> _Data | None:
        file = self.table.paths[run] / LABELS_FILE if run in self.table.paths else None
        if file is None or not file.is_file():
            return None
        content = file.read_bytes()
        code = hashlib.sha256(content).digest()
        if code not in self._read:
            self._read[code] = _Data.read(file, content)
        return self._read[code]


def _by_rows(records: _Records, method: str, runs: list[str], data: _Data | None) -> Suspicion:
    found = (records.row(run, method) for run in runs)
    margins = np.array([row for row in found if row is not None])
    if data is not None and margins.shape[1] != len(data.train):
        raise CorruptRunError(
            f"Expected {len(data.train)} numbers per row of `{method}` in {runs[0]!r}, one per "
            f"training sample of its {LABELS_FILE}, got {margins.shape[1]}."
        )
    losses = margins < 0  # NaN, never judged or never lost, is no loss
    scores = np.mean([_ranks(np.where(np.isnan(m), np.inf, m)) for m in margins], axis=0)
    chosen = np.flatnonzero(losses.mean(0) > 0.5)
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
    said = [_Said(int(one), float(scores[one])) for one in chosen]
    return _judged(method, runs, margins.shape[1], data, "train", said)


def _ranks(margins: Floats) -> Floats:
    """The share of the other samples that do better."""
    order = np.sort(margins)
    better = len(margins) - np.searchsorted(order, margins, side="right")
    return better / max(len(margins) - 1, 1)


def _judged(
    method: str,
    runs: Sequence[str],
    samples: int,
    data: _Data | None,
    split: Split,
    said: Sequence[_Said],
) -> Suspicion:
    """Suspects, and what the truth says of them."""
    if data is None:
        unknown = (
            SuspectLabel(method, split, one.sample, None, one.believed, one.score, None)
            for one in said
        )
        return Suspicion(method, tuple(runs), samples, tuple(unknown))
    suspects = tuple(data.listed(method, split, said))
    found = Suspicion(method, tuple(runs), samples, suspects)
    wrong = None if data.wrong is None else data.wrong[getattr(data, split)]
    if wrong is None or not wrong.any():
        return found
    hits = sum(suspect.is_wrong is True for suspect in suspects)
    precision = hits / len(suspects) if suspects else None
    recall, share = hits / int(wrong.sum()), float(wrong.mean())
    return replace(found, precision=precision, recall=recall, wrong=share)


def _by_posterior(records: _Records, judged: Selection | None) -> Iterator[Suspicion]:
    groups = records.by_data("predictions")
    for runs, data in groups:
        chosen = judged
        if chosen is None or len(groups) > 1:
            part = take_runs(records.table, runs)
            try:
                chosen = choose(find_rule("posterior"), candidates_of(part, ZETAS[0]))
            except InputError:
                continue  # one run, or a holdout without labels
        said = [_Said(s.sample, s.probability, s.believed) for s in chosen.suspects]
        if said and data is not None:
            yield _judged("posterior", runs, len(data.holdout), data, "holdout", said)
