"""The training loop of a run: epoch, accuracies, probe, checkpoint, state, neighbor votes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from rote.arguments import check_integer, check_path
from rote.errors import RoteError, StateError, StoreError, quote
from rote.labels import neighbor_votes
from rote.probe import hash_content
from rote.records import Reading
from rote.snapshot import RandomState, restore_after
from rote.store import NEIGHBORS_FILE, STATE_FILE, read_run
from rote.tracking import Tracker, track
from rote.workloads.checkpoints import CheckpointKeeper
from rote.workloads.data import Dataset, make_given_section, read_data
from rote.workloads.data.lookup import find_data_path
from rote.workloads.data.samples import SampleTensors
from rote.workloads.data.splits import Splits, prepare
from rote.workloads.run_folder import RunFolder
from rote.workloads.spec import Data, FieldError, RunSpec
from rote.workloads.workload import Workload, choose_device, make_repeatable

_VERSION = 1


class RunState:
    """Keeps the directory of a run in step with the run.

    After an epoch the journal comes first, then the checkpoint, then the state. A kill in between
    leaves a state from before: the epoch is then trained again, to the same bits, its reading in
    the journal is declared void, and its checkpoint is written again.
    """

    def __init__(self, workload: Workload, tracker: Tracker, folder: RunFolder) -> None:
        self._workload = workload
        self._tracker = tracker
        self._folder = folder
        spec = workload.spec
        self._every = spec.checkpoints.resume_every
        self._keeper = CheckpointKeeper(spec.checkpoints, folder.path, spec.epochs)

    def begin(self) -> int:
        """Put everything back to where the run stood, or write down how it begins.

        Returns:
            How many epochs are done.

        Raises:
            StateError: if the state was saved by another version, or is gone.
        """
        state = self._folder.states.load()
        if state is None and self._tracker.readings:
            raise StateError(
                f"{self._folder.path} has readings but no {STATE_FILE}, so the run cannot resume. "
                "Start it again in another directory."
            )
        if state is None:
            self._folder.record(self._workload.splits.record)
            self._folder.describe(self._workload.splits.description, finished=False)
            self._save(0)
            return 0
        if state.get("version") != _VERSION:
            raise StateError(
                f"The saved state of {self._folder.path} has version "
                f"{quote(state.get('version'))}, not {_VERSION}. Start the run again in another "
                "directory."
            )
        self._folder.check_record(self._workload.splits.record)
        try:
            return self._restore(state)
        except (LookupError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            if isinstance(error, RoteError):
                raise
            raise StateError(
                f"The saved state of {self._folder.path} does not fit this run: "
                f"{quote(str(error))}. Start the run again in another directory."
            ) from error

    def _restore(self, state: dict[str, Any]) -> int:
        epoch = check_integer("epoch", state["epoch"], least=0, most=self._workload.spec.epochs)
        self._workload.load_state_dict(state["workload"])
        self._tracker.load_state_dict(state["tracker"])
        self._keeper.load_state_dict(state["keeper"])
        return epoch

    def advance(self, epoch: int, reading: Reading | None) -> None:
        """Keep a checkpoint and a state after an epoch that is in the journal."""
        self._keeper.keep(self._workload.model, epoch, reading)
        if epoch % self._every == 0 and epoch < self._workload.spec.epochs:
            self._save(epoch)

    def finish(self) -> dict[str, Any]:
        """Declare the run finished."""
        if self._workload.out_of_sample is not None:
            self._folder.record_out_of_sample(self._workload.out_of_sample.record())
        return self._folder.finish(self._workload.splits.description)

    def _save(self, epoch: int) -> None:
        self._folder.states.save(
            {
                "version": _VERSION,
                "epoch": epoch,
                "workload": self._workload.state_dict(),
                "tracker": self._tracker.state_dict(),
                "keeper": self._keeper.state_dict(),
            }
        )


NEIGHBORS = 10
_AT_ONCE = 2048
_KEPT = 8
_known: dict[str, np.ndarray] = {}  # a worker of a sweep trains many runs on the same data


def compute_holdout_votes(splits: Splits) -> np.ndarray | None:
    """Return nearest-neighbor votes; None without a labeled holdout, or for token ids.

    Distances are those of normalized pixels or features, or of weighted word counts.
    """
    if splits.holdout_labels is None or splits.is_tokens:
        return None
    identity = hash_content({"holdout": splits.holdout, "labels": splits.labels})
    if identity not in _known:
        while len(_known) >= _KEPT:
            del _known[next(iter(_known))]
        _known[identity] = _count_votes(splits)
    return _known[identity]


def _count_votes(splits: Splits) -> np.ndarray:
    train: Any = _NormalizedRows(splits.train)
    holdout: Any = splits.holdout
    if splits.description["inputs"] == "bag-of-words":
        from scipy import sparse

        starts = range(0, len(train), _AT_ONCE)
        parts = [sparse.csr_matrix(train[at : at + _AT_ONCE].cpu().numpy()) for at in starts]
        train, holdout = sparse.vstack(parts), sparse.csr_matrix(holdout.cpu().numpy())
    k = min(NEIGHBORS, len(splits.train))
    return neighbor_votes(train, splits.labels, holdout, k=k, num_classes=splits.num_classes)


class _NormalizedRows:
    """Training samples that are normalized as they are asked for, never all at once."""

    def __init__(self, samples: SampleTensors) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, chosen: slice) -> Tensor:
        return self._samples.batch(chosen)


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Attributes:
        spec: what was run.
        description: identity, spec and data (noise with its realized rate), as JSON can hold them.
        readings: one per measured epoch.
        path: its directory, if it was saved.
        model: the network after the last epoch; None if the run was finished before.

    Example:
        >>> spec = RunSpec.from_dict({"epochs": 1, "architecture": "mlp",
        ...     "data": {"name": "digits", "train_size": 60}})
        >>> run = train(spec)
        >>> len(run.readings), run.path is None
        (1, True)
    """

    spec: RunSpec
    description: Mapping[str, Any]
    readings: tuple[Reading, ...]
    path: Path | None = None
    model: nn.Module | None = field(default=None, repr=False, compare=False)


def train(
    spec: RunSpec,
    out: Path | str | None = None,
    *,
    data: Any = None,  # noqa: ANN401  # recognized by its type
    data_dir: Path | str | None = None,
    progress: Callable[[Reading], object] | None = None,
    threads: int = 1,
) -> TrainedRun:
    """Train a network as a spec says, and track it.

    After every measured epoch the journal has a reading with ``train_accuracy``,
    ``clean_accuracy`` and ``noisy_accuracy`` (where it is known which labels are wrong),
    ``test_accuracy``, ``train_loss`` and ``lr`` beside the probe's own numbers, and the columns of
    the spec's ``signals``.

    Args:
        spec: what to run.
        out: a directory for journal and checkpoints. If it holds this run already, the run
            resumes where it was interrupted, and ends with the same numbers; a finished run is
            returned as it is.
        data: samples and labels to train on instead of those of the spec, of which seed and sizes
            still count: whatever ``read_data`` takes.
        data_dir: the folder of local data; ``ROTE_DATA`` by default.
        progress: called with every reading.
        threads: the number of threads on a CPU.

    Returns:
        The readings, and the trained network.

    Raises:
        InputError: if data or spec do not fit; a ``FieldError`` names the field.
        RunExistsError: if ``out`` holds something else; a ``DataChangedError`` if it holds this
            run, and the data file has changed since.
        RunLockedError: if another process is writing ``out``.
        StoreError: if ``out`` cannot be written: the disk is full, or the directory is gone.
        CorruptRunError: if what ``out`` holds is damaged.

    Example:
        >>> spec = RunSpec.from_dict({"epochs": 2, "architecture": "mlp", "noise":
        ...     {"model": "symmetric-inclusive", "rate": 0.5}})
        >>> run = train(spec)
        >>> [reading.step for reading in run.readings], run.readings[-1].noisy_accuracy < 0.5
        ([1, 2], True)
    """
    dataset = None if data is None else read_data(data, data_dir=data_dir)
    if dataset is not None:
        spec = replace(spec, data=make_given_section(spec.data, dataset))
    start = partial(_train, spec, dataset, data_dir, progress, threads)
    if out is None:
        return start(None)
    folder = RunFolder(check_path("out", out), spec, _find_source(spec.data, data_dir))
    finished = _find_finished(folder)
    if finished is not None:
        return finished
    if not folder.path.exists():
        find_data_path(spec.data, data_dir)  # a missing file leaves no directory behind
    with folder.claim():
        finished = _find_finished(folder)  # another process may have ended it since
        with _report_disk_errors(folder.path):
            return start(folder) if finished is None else finished


def _find_source(data: Data, data_dir: Path | str | None) -> Path | None:
    """Return the file or folder of the data; None if it is missing.

    Only training needs it, and says so: a finished run is returned without.
    """
    try:
        return find_data_path(data, data_dir)
    except FieldError:
        return None


@contextmanager
def _report_disk_errors(path: Path) -> Iterator[None]:
    """Turn an error of the file system into a ``StoreError`` that names the run."""
    try:
        yield
    except OSError as error:
        if isinstance(error, RoteError):
            raise
        raise StoreError(
            f"Cannot write {path}: {error.strerror or error}. What was saved so far is kept: fix "
            "that, then start the same run again to resume it."
        ) from error


def _find_finished(folder: RunFolder) -> TrainedRun | None:
    earlier = folder.examine()
    if earlier is None or not earlier["finished"]:
        return None
    return TrainedRun(folder.spec, earlier, read_run(folder.path).readings, path=folder.path)


def _train(
    spec: RunSpec,
    dataset: Dataset | None,
    data_dir: Path | str | None,
    progress: Callable[[Reading], object] | None,
    threads: int,
    folder: RunFolder | None,
) -> TrainedRun:
    device = choose_device(spec.device)
    with restore_after(RandomState()), make_repeatable(device, threads):
        splits = prepare(spec, data_dir=data_dir, device=device, dataset=dataset)
        workload = Workload(spec, splits, device)
        with workload.precision():
            tracker = _start_tracking(workload, folder)
        try:
            description = _run(workload, tracker, folder, progress)
        finally:
            tracker.close()
    path = None if folder is None else folder.path
    return TrainedRun(spec, description, tuple(tracker.readings), path, workload.model)


def _start_tracking(workload: Workload, folder: RunFolder | None) -> Tracker:
    spec, splits = workload.spec, workload.splits
    tracker = track(
        workload.model,
        workload.optimizer,
        inputs=splits.holdout,
        num_classes=splits.num_classes,
        loss_fn=workload.objective.loss,
        given_labels=splits.holdout_labels,
        neighbor_votes=_find_votes_to_record(workload, folder),
        signals=workload.signals(),
        policy=workload.policy,
        seed=spec.probe.seed,
        name=None if folder is None else spec.name,
        save_to=None if folder is None else folder.path,
        resume=folder is not None and folder.is_started,
    )
    tracker.noise_rate = splits.description["noise"]["realized_rate"]
    return tracker


def _find_votes_to_record(workload: Workload, folder: RunFolder | None) -> np.ndarray | None:
    """Return votes to be recorded; None where nothing is, or it was before a kill."""
    is_wanted = workload.spec.probe.neighbors
    if folder is None or not is_wanted or (folder.path / NEIGHBORS_FILE).is_file():
        return None
    return compute_holdout_votes(workload.splits)


def _run(
    workload: Workload,
    tracker: Tracker,
    folder: RunFolder | None,
    progress: Callable[[Reading], object] | None,
) -> dict[str, Any]:
    """Train from wherever the run stands to its end."""
    spec = workload.spec
    state = None if folder is None else RunState(workload, tracker, folder)
    first = 1 if state is None else state.begin() + 1
    for epoch in range(first, spec.epochs + 1):
        metrics = workload.train_epoch(epoch, tracker)
        with workload.precision():
            # Also where it is not due: the probe counts the epochs.
            reading = tracker.probe(**metrics)
        if state is not None:
            state.advance(epoch, reading)
        if progress is not None and reading is not None:
            progress(reading)
    if state is not None:
        return state.finish()
    return {
        "identity": spec.identity,
        "finished": True,
        "data": workload.splits.description,
        "spec": spec.to_dict(),
    }


def train_folds(
    spec: RunSpec,
    out: Path | str,
    folds: int,
    *,
    data: Any = None,  # noqa: ANN401  # recognized by its type
    data_dir: Path | str | None = None,
    progress: Callable[[Reading], object] | None = None,
    threads: int = 1,
) -> tuple[TrainedRun, ...]:
    """Train one run per fold, so that each sample is held out once.

    Every run writes ``out_of_sample.npz``: the classes and probabilities that it predicts for its
    fold (``rote.store.read_out_of_sample`` joins them). The label of a sample can then be judged
    by a network that has never seen it.

    Args:
        spec: what to run; its holdout is replaced by the folds.
        out: a directory; the runs are in ``fold-0``, ``fold-1``, … below it.
        folds: how many, at least 2.
        data: see ``train``.
        data_dir: see ``train``.
        progress: called with every reading of every run.
        threads: see ``train``.

    Returns:
        The runs; finished ones are returned as they are, interrupted ones are resumed.

    Raises:
        InputError: as ``train``.
        RunExistsError: as ``train``.

    Example:
        >>> import tempfile
        >>> spec = RunSpec.from_dict({"epochs": 1, "architecture": "mlp",
        ...     "data": {"name": "digits", "train_size": 60}})
        >>> runs = train_folds(spec, tempfile.mkdtemp() + "/folds", 3)
        >>> [run.description["data"]["holdout"] for run in runs]
        [20, 20, 20]
    """
    folder = check_path("out", out)
    values = spec.to_dict()
    kept = {name: value for name, value in values["probe"].items() if name != "holdout_size"}
    specs = [
        RunSpec.from_dict(values | {"probe": kept | {"folds": folds, "fold": fold}})
        for fold in range(folds)
    ]
    return tuple(
        train(
            one,
            folder / f"fold-{one.probe.fold}",
            data=data,
            data_dir=data_dir,
            progress=progress,
            threads=threads,
        )
        for one in specs
    )
