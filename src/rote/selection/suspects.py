"""Suspected label errors: one ranking of all samples, and the lists of single methods."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from rote.errors import CorruptRunError, InputError
from rote.records import ZETAS
from rote.selection.candidates import make_candidates
from rote.selection.groups import check_comparable, take_runs
from rote.selection.label_errors import rank_out_of_sample
from rote.selection.rules import find_rule
from rote.selection.rules.posterior import Posterior
from rote.selection.select_checkpoint import choose, read_runs
from rote.store import (
    DAMAGED_ARRAYS,
    LABELS_FILE,
    OUT_OF_SAMPLE_FILE,
    make_csv,
    read_out_of_sample,
)

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from rote.selection.candidates import Booleans, Floats, Integers
    from rote.selection.clean_accuracy import AccuracyEstimate
    from rote.selection.selection import Selection
    from rote.store import OutOfSample, RunTable

Split: TypeAlias = Literal["train", "holdout"]

METHODS = ("aum", "confident_learning")
"""Signals whose rows say, per training sample, by how much its label wins; negative is a loss."""

_RANKED_BY = {"aum": 1.0, "csl": -1.0}
"""Signals by which training samples are ranked; the sign makes low values suspicious."""

_SOFTNESS = 0.1
"""How fast the probability falls around the noise rate, in shares of the samples."""

_DEFAULT_RATE = 0.3


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
class RankedLabel:
    """One sample of the ranking.

    Attributes:
        split: ``train``, or ``holdout`` for what was kept out of training.
        sample: its position in the data, from 0; of a table, its row.
        given: its label, if the run knows it.
        proposed: the most probable class, or of a training sample the strongest other class; None
            where no method proposes one.
        probability: that the given label is wrong; of training samples without folds a score, see
            ``is_score``.
        signals: the methods that suspect it.
        is_wrong: the truth, where the run knows it.
        file: where it is, if it is a file of a folder.
        is_score: whether ``probability`` is only a score: it follows from the sample's rank by
            in-sample signals and the estimated noise rate, and is not calibrated.
    """

    split: Split
    sample: int
    given: int | None
    proposed: int | None
    probability: float
    signals: tuple[str, ...]
    is_wrong: bool | None
    file: str | None = None
    is_score: bool = False


class _NamesClasses:
    """What rankings and lists share: names of the classes."""

    class_names: tuple[str, ...]

    def name_class(self, label: int | None) -> str:
        """Return the name of a class, or its number; empty if it is not known."""
        if label is None:
            return ""
        known = 0 <= label < len(self.class_names)
        return self.class_names[label] if known else str(label)


@dataclass(frozen=True)
class SuspectRanking(_NamesClasses):
    """All samples of runs that share their data, the most suspicious first.

    Attributes:
        runs: the runs that judged them.
        samples: training and holdout samples in one order.
        flagged: how many of the first are suspected: those with a probability above one half.
        noise_rate: the estimated share of wrong labels; None if nothing estimates it.
        precision: the share of flagged samples whose label is wrong, where that is known.
        recall: the share of label errors that are flagged.
        class_names: the names of the classes, if they have any.
    """

    runs: tuple[str, ...]
    samples: tuple[RankedLabel, ...]
    flagged: int
    noise_rate: float | None = None
    precision: float | None = None
    recall: float | None = None
    class_names: tuple[str, ...] = ()

    @property
    def suspects(self) -> tuple[RankedLabel, ...]:
        """Return the flagged samples."""
        return self.samples[: self.flagged]

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``rote suspects --json`` lists; the flagged samples only."""
        found = asdict(replace(self, samples=())) | {"num_samples": len(self.samples)}
        return found | {"samples": [asdict(entry) for entry in self.suspects]}

    def to_csv(self) -> str:
        """Return all samples as a table, one per line, the most suspicious first."""
        names = [entry.name for entry in fields(RankedLabel)]
        rows: list[list[object]] = [["rank", "flagged", *names, "given_name", "proposed_name"]]
        for rank, entry in enumerate(self.samples, start=1):
            values = [getattr(entry, name) for name in names]
            values[names.index("signals")] = " ".join(entry.signals)
            called = map(self.name_class, (entry.given, entry.proposed))
            rows.append([rank, rank <= self.flagged, *values, *called])
        return make_csv(rows)


@dataclass(frozen=True)
class Suspicion(_NamesClasses):
    """What one method says about the samples of runs that share their data.

    Attributes:
        method: who says it.
        runs: on which runs it goes.
        samples: the number of samples that were judged.
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

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``rote suspects --json`` lists."""
        return {**asdict(self), "suspects": [asdict(suspect) for suspect in self.suspects]}


def rank_suspects(
    runs: Path | str | Sequence[Path | str] | RunTable,
) -> tuple[SuspectRanking, ...]:
    """Rank all samples by how probably their label is wrong.

    Runs with folds (``rote train --folds``) rank every sample by networks that were not trained on
    it (``rank_label_errors``), and nothing else is used. Otherwise, holdout samples are ranked by
    the posterior of rule ``posterior``, and training samples by in-sample signals (``aum``,
    ``csl``), whose ranks become scores by the noise rate of the holdout (``is_score``).

    Args:
        runs: run directories, folders of them, or their table.

    Returns:
        One ranking per set of data.

    Raises:
        InputError: if nothing was recorded to rank by, or a fold is missing or has not finished.
        CorruptRunError: if the labels of a run are damaged.

    Example:
        >>> import tempfile
        >>> from rote.workloads import RunSpec, train_folds
        >>> spec = RunSpec.from_dict({"epochs": 1, "architecture": "mlp",
        ...     "data": {"name": "digits", "train_size": 60}})
        >>> runs = train_folds(spec, tempfile.mkdtemp() + "/folds", 2)
        >>> [ranking] = rank_suspects([run.path for run in runs])
        >>> len(ranking.samples)
        60
    """
    records = _Records(read_runs(runs, comparable=False))
    _check_folds(records.table)
    folded = read_out_of_sample(records.table.paths.values())
    if folded is not None:
        return (_rank_folds(records, folded),)
    check_comparable(records.table)
    methods = ("predictions", *_RANKED_BY, *METHODS)
    groups: dict[object, tuple[list[str], _Data | None]] = {}
    for method in methods:
        for names, data in records.by_data(method):
            key = names[0] if data is None else data.key()
            known = groups.setdefault(key, ([], data))[0]
            known.extend(name for name in names if name not in known)
    found = [_rank(records, names, data) for names, data in groups.values()]
    rankings = tuple(ranking for ranking in found if ranking is not None)
    if not rankings:
        raise InputError(
            'The runs recorded nothing to rank labels by. Pass signals=["aum"] to rote.track and '
            "labels and indices to tracker.observe. Or hold out samples with given_labels= and "
            "either neighbor_votes= or a second run on the same holdout."
        )
    return rankings


def _check_folds(table: RunTable) -> None:
    """Refuse a part of the folds: no network would have judged the samples of the others."""
    finished: dict[int, set[int]] = {}
    for run, path in table.paths.items():
        probe = table.read_workload(run).get("spec", {}).get("probe", {})
        if probe.get("folds") is not None:
            numbers = finished.setdefault(probe["folds"], set())
            if (path / OUT_OF_SAMPLE_FILE).is_file():
                numbers.add(probe["fold"])
    for folds, numbers in finished.items():
        if len(numbers) < folds:
            raise InputError(
                f"Only {len(numbers)} of {folds} folds have finished, so that the other samples "
                f"were not judged. Run the same rote train --folds {folds} again, which resumes, "
                "and name the folder of all folds."
            )


def _rank(records: _Records, runs: list[str], data: _Data | None) -> SuspectRanking | None:
    """Rank holdout and training samples of runs that share their data."""
    holdout = _estimate_holdout(records, runs)
    rate = None if holdout is None else holdout.noise_rate
    entries = [*_rank_holdout(holdout, data), *_rank_training(records, runs, data, rate)]
    return _order(records, runs, entries, rate) if entries else None


def _rank_folds(records: _Records, folded: OutOfSample) -> SuspectRanking:
    """Rank samples by networks that were not trained on them."""
    runs = sorted(records.table.paths)
    found = rank_out_of_sample(folded)
    data = next((data for run in runs if (data := records.data(run)) is not None), None)
    positions = {} if data is None else {int(row): at for at, row in enumerate(data.rows)}
    entries = []
    for at, sample in enumerate(folded.samples.tolist()):
        probability, proposed = float(found.probability[at]), int(found.proposed[at])
        signals = ("out-of-sample",) if probability > 0.5 else ()
        place = _Place(sample, None, None)
        if data is not None and sample in positions:
            place = data.place(positions[sample])
        given = int(folded.labels[at])
        entries.append(
            RankedLabel("train", place.sample, given, proposed, probability, signals, *place[1:])
        )
    return _order(records, runs, entries, found.noise_rate)


def _order(
    records: _Records, runs: Sequence[str], entries: list[RankedLabel], rate: float | None
) -> SuspectRanking:
    """Put samples in order, and count how many of the suspected ones are wrong."""
    entries.sort(key=lambda entry: -entry.probability)  # stable: ties stay in the data's order
    flagged = sum(entry.probability > 0.5 for entry in entries)
    names = _read_class_names(records.table, runs[0])
    ranking = SuspectRanking(tuple(runs), tuple(entries), flagged, rate, class_names=names)
    wrong = sum(entry.is_wrong is True for entry in entries)
    if not wrong:
        return ranking
    hits = sum(entry.is_wrong is True for entry in ranking.suspects)
    precision = hits / flagged if flagged else None
    return replace(ranking, precision=precision, recall=hits / wrong)


def _estimate_holdout(records: _Records, runs: list[str]) -> AccuracyEstimate | None:
    part = take_runs(records.table, runs)
    try:
        found = Posterior().estimate_accuracy(make_candidates(part, ZETAS[0]))
    except InputError:
        return None  # no holdout, no labels, or no votes
    return found if found.belief.votes_carry else None


def _rank_holdout(found: AccuracyEstimate | None, data: _Data | None) -> Iterator[RankedLabel]:
    if found is None:
        return
    given = found.labels.given
    doubt = 1 - found.truth[np.arange(len(given)), np.maximum(given, 0)]
    believed = found.truth.argmax(axis=1)
    for at in np.flatnonzero(given >= 0).tolist():
        probability, label = float(doubt[at]), int(believed[at])
        signals = ("posterior",) if probability > 0.5 else ()
        place = _place(data, "holdout", at)
        yield RankedLabel(
            "holdout", place.sample, int(given[at]), label, probability, signals, *place[1:]
        )


def _rank_training(
    records: _Records, runs: list[str], data: _Data | None, rate: float | None
) -> Iterator[RankedLabel]:
    margins = {name: records.margins(name, runs) for name in (*_RANKED_BY, *METHODS)}
    known = {name: rows for name, rows in margins.items() if len(rows)}
    if not known:
        return
    by = [name for name in _RANKED_BY if name in known] or list(known)
    ranks = {
        name: np.mean(
            [_compute_ranks(np.where(np.isnan(row), np.inf, row)) for row in rows], axis=0
        )
        for name, rows in known.items()
    }
    losing = [rows for name, rows in known.items() if name in METHODS]
    if rate is None:
        rate = float(np.mean(np.mean(losing[0] < 0, axis=0) > 0.5)) if losing else _DEFAULT_RATE
    score = np.mean([ranks[name] for name in by], axis=0)
    bar = float(np.quantile(score, 1 - min(max(rate, 0.0), 1.0)))
    probability = 1 / (1 + np.exp(-(score - bar) / _SOFTNESS))
    rivals = records.rivals(runs)
    for at, value in enumerate(probability.tolist()):
        suspecting = tuple(name for name, rank in ranks.items() if rank[at] > 1 - rate)
        place = _place(data, "train", at)
        given = None if data is None else int(data.labels[data.train[at]])
        proposed = None if rivals is None or rivals[at] < 0 else int(rivals[at])
        yield RankedLabel(
            "train", place.sample, given, proposed, value, suspecting, *place[1:], is_score=True
        )


class _Place(NamedTuple):
    """Where a sample is: its position in the data, the truth about its label, and its file."""

    sample: int
    is_wrong: bool | None
    file: str | None


def _place(data: _Data | None, split: Split, at: int) -> _Place:
    if data is None:
        return _Place(at, None, None)
    return data.place(int(getattr(data, split)[at]))


def find_suspects(
    runs: Path | str | Sequence[Path | str] | RunTable, judged: Selection | None = None
) -> tuple[Suspicion, ...]:
    """List the samples whose label is probably wrong, by every method that applies.

    ``aum`` and ``confident_learning`` use the rows of the signals of these names, at the reading
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

    Example:
        >>> import tempfile
        >>> from rote.workloads import RunSpec, train
        >>> spec = RunSpec.from_dict({"epochs": 2, "architecture": "mlp", "signals": ["aum"],
        ...     "data": {"name": "digits", "train_size": 60}})
        >>> run = train(spec, tempfile.mkdtemp() + "/a")
        >>> [found.method for found in find_suspects(run.path)]
        ['aum']
    """
    records = _Records(read_runs(runs))
    found = [
        _rank_by_rows(records, method, names, data)
        for method in METHODS
        for names, data in records.by_data(method)
    ]
    found += _rank_by_posterior(records, judged)
    found = [
        replace(one, class_names=_read_class_names(records.table, one.runs[0])) for one in found
    ]
    if not found:
        raise InputError(
            f"The runs recorded nothing to rank labels by. Record {' or '.join(METHODS)} "
            "(`signals = [...]`), or train several runs with a holdout and its given labels."
        )
    return tuple(found)


def _read_class_names(table: RunTable, run: str) -> tuple[str, ...]:
    data = table.read_workload(run).get("data")
    named = data.get("class_names") if isinstance(data, dict) else None
    return tuple(map(str, named)) if isinstance(named, list) else ()


def as_csv(found: Sequence[Suspicion]) -> str:
    """Return all suspects as a table, one per line."""
    names = [entry.name for entry in fields(SuspectLabel)]
    rows: list[list[object]] = [["runs", *names, "given_name", "believed_name"]]
    for suspicion in found:
        for suspect in suspicion.suspects:
            values = [getattr(suspect, name) for name in names]
            called = map(suspicion.name_class, (suspect.given, suspect.believed))
            rows.append([" ".join(suspicion.runs), *values, *called])
    return make_csv(rows)


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
                f"Cannot read the labels of a run in {file}: {error}. Restore the file."
            ) from error
        return data

    def key(self) -> tuple[bytes, ...]:
        """Return what is the same for runs that share their data."""
        used = self.rows[self.train], self.labels[self.train], self.rows[self.holdout]
        return tuple(part.tobytes() for part in used)

    def place(self, position: int) -> _Place:
        """Return where a sample is, and the truth about its label."""
        places = self.rows if self.table_rows is None else self.table_rows
        wrong = None if self.wrong is None else bool(self.wrong[position])
        return _Place(int(places[position]), wrong, self.files[position] if self.files else None)

    def list_suspects(
        self, method: str, split: Split, said: Iterable[_Said]
    ) -> Iterator[SuspectLabel]:
        """Yield suspects by their place in the data, with the truth about them."""
        places = getattr(self, split)
        for one in said:
            at = places[one.sample]
            place, given = self.place(at), int(self.labels[at])
            yield SuspectLabel(
                method, split, place.sample, given, one.believed, one.score, *place[1:]
            )


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
        """Return runs with rows of a method, those that share their data together."""
        groups: dict[object, tuple[list[str], _Data | None]] = {}
        for run in self.table.descriptions:
            if self.row(run, method) is not None:
                data = self.data(run)
                key = run if data is None else data.key()
                groups.setdefault(key, ([], data))[0].append(run)
        return list(groups.values())

    def row(self, run: str, method: str) -> Floats | None:
        """Return the row of the reading that counts, if there is one."""
        rows = self.table.read_rows(run, method)
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

    def margins(self, method: str, runs: Sequence[str]) -> Floats:
        """Return the rows of a signal, runs × samples; low values are suspicious."""
        rows = [row for run in runs if (row := self.row(run, method)) is not None]
        return np.array(rows) * _RANKED_BY.get(method, 1.0)

    def rivals(self, runs: Sequence[str]) -> Integers | None:
        """Return the class that most runs rank highest beside the given label, by sample."""
        rows = [row for run in runs if (row := self.row(run, "aum_rival")) is not None]
        if not rows:
            return None
        classes = np.array(rows, dtype=np.int64)
        counts = (classes[:, None] == classes[None]).sum(axis=1)
        return np.asarray(classes[counts.argmax(axis=0), np.arange(classes.shape[1])])

    def data(self, run: str) -> _Data | None:
        """Return the labels of a run, if it has any."""
        file = self.table.paths[run] / LABELS_FILE if run in self.table.paths else None
        if file is None or not file.is_file():
            return None
        content = file.read_bytes()
        code = hashlib.sha256(content).digest()
        if code not in self._read:
            self._read[code] = _Data.read(file, content)
        return self._read[code]


def _rank_by_rows(records: _Records, method: str, runs: list[str], data: _Data | None) -> Suspicion:
    found = (records.row(run, method) for run in runs)
    margins = np.array([row for row in found if row is not None])
    if data is not None and margins.shape[1] != len(data.train):
        raise CorruptRunError(
            f"The rows of `{method}` in {runs[0]!r} have {margins.shape[1]} numbers, but its "
            f"{LABELS_FILE} has {len(data.train)} training samples."
        )
    losses = margins < 0  # NaN, never judged or never lost, is no loss
    scores = np.mean([_compute_ranks(np.where(np.isnan(m), np.inf, m)) for m in margins], axis=0)
    chosen = np.flatnonzero(losses.mean(0) > 0.5)
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
    said = [_Said(int(one), float(scores[one])) for one in chosen]
    return _judge(method, runs, margins.shape[1], data, "train", said)


def _compute_ranks(margins: Floats) -> Floats:
    """Return the share of the other samples that do better."""
    order = np.sort(margins)
    better = len(margins) - np.searchsorted(order, margins, side="right")
    return better / max(len(margins) - 1, 1)


def _judge(
    method: str,
    runs: Sequence[str],
    samples: int,
    data: _Data | None,
    split: Split,
    said: Sequence[_Said],
) -> Suspicion:
    """Return suspects, and what the truth says of them."""
    if data is None:
        unknown = (
            SuspectLabel(method, split, one.sample, None, one.believed, one.score, None)
            for one in said
        )
        return Suspicion(method, tuple(runs), samples, tuple(unknown))
    suspects = tuple(data.list_suspects(method, split, said))
    found = Suspicion(method, tuple(runs), samples, suspects)
    wrong = None if data.wrong is None else data.wrong[getattr(data, split)]
    if wrong is None or not wrong.any():
        return found
    hits = sum(suspect.is_wrong is True for suspect in suspects)
    precision = hits / len(suspects) if suspects else None
    recall, share = hits / int(wrong.sum()), float(wrong.mean())
    return replace(found, precision=precision, recall=recall, wrong=share)


def _rank_by_posterior(records: _Records, judged: Selection | None) -> Iterator[Suspicion]:
    groups = records.by_data("predictions")
    for runs, data in groups:
        chosen = judged
        if chosen is None or len(groups) > 1:
            part = take_runs(records.table, runs)
            try:
                chosen = choose(find_rule("posterior"), make_candidates(part, ZETAS[0]))
            except InputError:
                continue  # one run, or a holdout without labels
        said = [_Said(s.sample, s.probability, s.believed) for s in chosen.suspects]
        if said and data is not None:
            yield _judge("posterior", runs, len(data.holdout), data, "holdout", said)
