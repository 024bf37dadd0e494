"""Optuna: search for low ζ and high training accuracy, with no validation set."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, StoreError
from rote.extras import require
from rote.selection import Selection, select
from rote.store import RunTable, read_table
from rote.sweeps.executor import (
    Blocked,
    Busy,
    Event,
    Executor,
    Failed,
    Finished,
    Job,
    Lost,
    forget_failure,
    last_line,
    record_failure,
    run_path,
)
from rote.sweeps.worker import run_job
from rote.workloads import RunSpec

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

    from rote.tracking import Tracker

Suggest = Callable[["Trial"], RunSpec | Mapping[str, Any]]
Values = tuple[float, float]

DIRECTIONS = ("minimize", "maximize")
RUN, SPEC, STEP, COLUMN, ERROR = "run", "spec", "step", "column", "error"  # a trial remembers

# A run seeds the generators of the process; two threads with a run each would share them.
_ONE_RUN = Lock()


def create_study(**options: Any) -> "Study":  # noqa: ANN401
    """Create a study that minimizes ζ and maximizes training accuracy.

    Args:
        options: of ``optuna.create_study``, such as ``storage``, ``sampler`` and
            ``load_if_exists``.

    Raises:
        MissingExtraError: if Optuna is not installed.
    """
    study: Study = require("optuna", extra="optuna").create_study(
        directions=list(DIRECTIONS), **options
    )
    return study


class SusceptibilityObjective:
    """(ζ, training accuracy) of the run that a trial suggests; no clean label is needed.

    A run's directory is the identity of its spec: a trial that suggests what was run before, in
    this study or in a sweep over the same store, costs nothing, and an interrupted one resumes.
    The trial remembers ``run`` (the directory), ``spec``, ``column`` (which ζ) and ``step`` (the
    checkpoint that counts), or ``error``. A run that fails is a failed trial and does not end the
    study; one that another process is doing is a pruned trial.

    Args:
        suggest: makes a spec, or the tables of one, from what the trial suggests.
        out: the store.
        data_dir: where datasets lie; ``ROTE_DATA`` by default.
        checkpoint: the rule that chooses among the checkpoints of one run, such as ``last``,
            ``filter`` or ``noisy-validation`` (see ``rote.select``).
        column: which of the four ζ; ``susceptibility_plain_relative`` compares learning rates.
    """

    def __init__(
        self,
        suggest: Suggest,
        out: Path | str,
        *,
        data_dir: Path | str | None = None,
        checkpoint: str = "last",
        column: str = "susceptibility",
    ) -> None:
        self._suggest = suggest
        self._store = Path(out).expanduser().absolute()
        self._data_dir = None if data_dir is None else Path(data_dir).expanduser().absolute()
        self._checkpoint = checkpoint
        self._column = column

    def __call__(self, trial: "Trial") -> Values:
        """Do the run in this process.

        Returns:
            ζ and training accuracy; NaN, by which Optuna knows a failed trial, if the run failed.

        Raises:
            TrialPruned: if another process is doing the run.
            StoreError: if the store cannot be written.
            InputError: if the spec does not fit, or the study asks for something else.
        """
        _check_directions(trial.study)
        job = self._job(trial)
        with _ONE_RUN:
            event = run_job(job)
        if isinstance(event, Busy):
            pruned = require("optuna", extra="optuna").TrialPruned
            raise pruned(f"Another process is doing {job.path}.")
        return self._values(event, [trial]) or (math.nan, math.nan)

    def optimize(self, study: "Study", executor: Executor, *, trials: int) -> None:
        """Do many trials, as many at a time as the executor has workers.

        If it is interrupted, the runs that were under way are the first trials of the next call.

        Args:
            study: as made by ``create_study``.
            executor: where the runs are done.
            trials: how many.

        Raises:
            StoreError: if the store cannot be written.
            InputError: if a spec does not fit, or the study asks for something else.
        """
        _check_directions(study)
        asked: dict[Path, list[Trial]] = {}
        try:
            with closing(executor.run(self._jobs(study, asked, trials))) as events:
                for event in events:
                    if event is not None and _ends(event):
                        self._tell(study, event, asked.pop(event.job.path))
        finally:
            for trial in (trial for waiting in asked.values() for trial in waiting):
                study.tell(trial, state=_state("FAIL"))
                study.enqueue_trial(trial.params, user_attrs={"continues": trial.number})

    def _jobs(self, study: "Study", asked: dict[Path, list["Trial"]], trials: int) -> Iterator[Job]:
        for _ in range(trials):
            trial = study.ask()
            try:
                job = self._job(trial)
            except BaseException:
                study.tell(trial, state=_state("FAIL"))
                raise
            asked.setdefault(job.path, []).append(trial)
            if len(asked[job.path]) == 1:  # or it is under way already, for another trial
                yield job

    def _job(self, trial: "Trial") -> Job:
        spec = self._suggest(trial)
        if not isinstance(spec, RunSpec):
            spec = RunSpec.from_dict(spec)
        path = run_path(self._store, spec)
        trial.set_user_attr(RUN, str(path))
        trial.set_user_attr(SPEC, spec.to_dict())
        return Job(spec, path, self._data_dir)

    def _tell(self, study: "Study", event: Event, trials: list["Trial"]) -> None:
        values = self._values(event, trials)
        for trial in trials:
            if values is not None:
                study.tell(trial, values)
            else:
                study.tell(trial, state=_state("PRUNED" if isinstance(event, Busy) else "FAIL"))

    def _values(self, event: Event, trials: list["Trial"]) -> Values | None:
        """Return the objective values of a run; None if it has none."""
        match event:
            case Finished(job):
                forget_failure(job)
                pick = select(job.path, self._checkpoint, column=self._column).pick
                _remember(trials, STEP, pick.step)
                _remember(trials, COLUMN, self._column)
                if pick.susceptibility is not None and pick.train_accuracy is not None:
                    return pick.susceptibility, pick.train_accuracy
                _remember(trials, ERROR, f"ζ or training accuracy of step {pick.step} is unknown")
            case Failed(job, error) | Lost(job, error):
                record_failure(job, error)
                _remember(trials, ERROR, last_line(error))
            case Blocked(job, reason):
                raise StoreError(f"Cannot write to {job.path.parent}: {reason}.")
        return None


@dataclass(frozen=True)
class ChosenTrial:
    """The trial to keep, and why.

    Attributes:
        trial: with its parameters and user attributes.
        selection: the pick among the trials, with reasons and warnings.
    """

    trial: "FrozenTrial"
    selection: Selection


def select_trial(study: "Study", rule: str = "pareto", **options: Any) -> ChosenTrial:  # noqa: ANN401
    """Choose among the trials of a study without a clean label.

    Args:
        study: as made by ``create_study``.
        rule: of ``rote.select``; the default is the knee of the front. Rules that look at
            predictions or at noisy validation accuracy need trials with run directories.
        options: of ``rote.select``; ``column`` is that of the objective by default.

    Raises:
        InputError: if no trial is complete, or the rule does not fit.
    """
    _check_directions(study)
    trials = study.get_trials(deepcopy=False, states=[_state("COMPLETE")])
    if not trials:
        raise InputError("Expected `study` to have a complete trial, got none. Run some first.")
    if all(RUN in trial.user_attrs for trial in trials):
        table, found = _table_of_runs(trials)
        options = {"column": trials[0].user_attrs[COLUMN]} | options
    else:
        table, found = _table_of_values(trials)
    selection = select(table, rule, **options)
    return ChosenTrial(found[selection.pick.run], selection)


def objective_values(tracker: "Tracker") -> Values:
    """Return (ζ, training accuracy) of a tracker, for an objective with its own training loop.

    Args:
        tracker: after the last probe, to which ``train_accuracy=`` was given.

    Raises:
        InputError: if there was no probe, or it had no ``train_accuracy``.
    """
    accuracy = tracker.readings[-1].metrics.get("train_accuracy") if tracker.readings else None
    if accuracy is None:
        raise InputError(
            "Expected `tracker` to have a reading with `train_accuracy`, got none. Call "
            "tracker.probe(train_accuracy=…) after an epoch."
        )
    return tracker.susceptibility, accuracy


def _table_of_values(trials: list["FrozenTrial"]) -> tuple[RunTable, dict[str, "FrozenTrial"]]:
    import polars as pl

    found = {f"trial {trial.number}": trial for trial in trials}
    frame = pl.DataFrame(
        {
            "run": list(found),
            "row": [0] * len(trials),
            "step": [trial.number for trial in trials],
            "susceptibility": [trial.values[0] for trial in trials],
            "train_accuracy": [trial.values[1] for trial in trials],
        }
    )
    return RunTable(frame, descriptions={}), found


def _table_of_runs(trials: list["FrozenTrial"]) -> tuple[RunTable, dict[str, "FrozenTrial"]]:
    """One checkpoint of every run: the one that counted; of equal trials, the first."""
    import polars as pl

    first = {Path(trial.user_attrs[RUN]): trial for trial in reversed(trials)}
    table = read_table(list(first))
    found = {name: first[path] for name, path in table.paths.items()}
    steps = [trial.user_attrs[STEP] for trial in found.values()]
    counted = pl.DataFrame({"run": list(found), "step": steps})
    frame = table.frame.join(counted, on=["run", "step"], how="semi", maintain_order="left")
    return RunTable(frame, table.descriptions, table.paths), found


def _ends(event: Event) -> bool:
    if isinstance(event, Lost):
        return event.gives_up
    return isinstance(event, Finished | Failed | Busy | Blocked)


def _state(name: str) -> Any:  # noqa: ANN401
    return getattr(require("optuna", extra="optuna").trial.TrialState, name)


def _remember(trials: list["Trial"], name: str, value: object) -> None:
    for trial in trials:
        trial.set_user_attr(name, value)


def _check_directions(study: "Study") -> None:
    found = tuple(direction.name.lower() for direction in study.directions)
    if found != DIRECTIONS:
        raise InputError(
            f"Expected `study` to have the directions {DIRECTIONS}, for ζ and training accuracy, "
            f"got {found}. Make it with rote.sweeps.create_study."
        )
