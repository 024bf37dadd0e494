"""Optuna: search for the highest estimated clean accuracy, with noisy labels only."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, StoreError
from rote.extras import require
from rote.records import Reading
from rote.selection import Selection, select
from rote.store import read_table
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
    get_last_line,
    get_run_path,
    record_failure,
)
from rote.sweeps.worker import run_job
from rote.workloads import RunSpec

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

Suggest = Callable[["Trial"], RunSpec | Mapping[str, Any]]

DIRECTION = "maximize"
RUN, SPEC, STEP, COLUMN, ERROR = "run", "spec", "step", "column", "error"  # a trial remembers
HIGH = "high"
"""A trial remembers the upper ends of its intervals, by step."""

# A run seeds the generators of the process; two threads with a run each would share them.
_ONE_RUN = Lock()


class _Stopped(BaseException):  # no error: it ends a run as an interrupt does
    """The pruner stops the run."""


def create_study(**options: Any) -> "Study":  # noqa: ANN401
    """Create a study that maximizes the estimated accuracy and stops trials that are surely worse.

    Args:
        options: of ``optuna.create_study``, such as ``storage``, ``sampler`` and
            ``load_if_exists``; ``pruner`` is an ``IntervalPruner`` by default.

    Returns:
        An Optuna study.

    Raises:
        MissingExtraError: if Optuna is not installed.

    Example:
        >>> [direction.name for direction in create_study().directions]
        ['MAXIMIZE']
    """
    optuna = require("optuna", extra="optuna")
    study: Study = optuna.create_study(direction=DIRECTION, **{"pruner": make_pruner(), **options})
    return study


def make_pruner(warmup: int = 10) -> Any:  # noqa: ANN401
    """Make a pruner that stops a trial whose estimate is surely below the best.

    It stops a trial when the upper end of the 95 % interval of its best checkpoint so far is below
    the estimate that the best finished trial had at the same step. Intervals are wide, about ±15
    points for one run: only hopeless trials are stopped.

    Args:
        warmup: no trial is stopped before this step, because slow learners begin low.

    Returns:
        A pruner of Optuna's.

    Raises:
        MissingExtraError: if Optuna is not installed.
    """
    base = require("optuna", extra="optuna").pruners.BasePruner

    class IntervalPruner(base):  # type: ignore[misc, valid-type]
        def prune(self, study: "Study", trial: "FrozenTrial") -> bool:
            step = trial.last_step
            if step is None or step < warmup:
                return False
            finished = study.get_trials(deepcopy=False, states=[_get_state("COMPLETE")])
            best = max((_find_highest(other, step) for other in finished), default=-math.inf)
            return is_surely_below(trial.user_attrs.get(HIGH, {}).get(str(step)), best)

    return IntervalPruner()


def is_surely_below(high: float | None, best: float) -> bool:
    """Return whether the upper end of an interval, if it is known, is below the best estimate."""
    return high is not None and high < best


def _find_highest(trial: "FrozenTrial", step: int) -> float:
    """Return the estimate that a trial had reached at a step."""
    found = [value for at, value in trial.intermediate_values.items() if at <= step]
    return max(found, default=-math.inf)


def judge_trial(trial: "Trial", run: Path | str, *, rule: str = "auto") -> float:
    """Return the value of a trial: the estimated accuracy of its selected checkpoint.

    The trial then remembers ``run``, ``step`` and ``column``: the directory, the checkpoint that
    counts, and which accuracy it is.

    Args:
        trial: the trial.
        run: the directory of its run (``save_to=``).
        rule: a rule of ``rote.select``, which chooses among the checkpoints of the run.

    Returns:
        The estimated clean accuracy; the accuracy on the given labels of the holdout, if nothing
        votes on them.

    Raises:
        InputError: if the run has no holdout with given labels.
    """
    selection = select(run, rule)
    column, value = _read_accuracy(selection)
    for name, fact in ((RUN, str(run)), (STEP, selection.pick.step), (COLUMN, column)):
        trial.set_user_attr(name, fact)
    return value


def report_trial(trial: "Trial", run: Path | str, *, rule: str = "auto") -> None:
    """Report the estimate of an unfinished run, so that ``trial.should_prune()`` can tell.

    Args:
        trial: the trial.
        run: the directory of its run, with at least one reading.
        rule: see ``judge_trial``.

    Raises:
        InputError: if the run has no holdout with given labels.
    """
    selection = select(run, rule)
    step = int(selection.table["step"].max())  # type: ignore[arg-type]
    trial.report(_read_accuracy(selection)[1], step)
    if selection.pick.interval is not None:
        known = dict(trial.user_attrs.get(HIGH, {}))
        trial.set_user_attr(HIGH, known | {str(step): selection.pick.interval[1]})


def _read_accuracy(selection: Selection) -> tuple[str, float]:
    """Return the accuracy of the selected checkpoint without a clean label, and its column."""
    found = {
        "estimated_accuracy": selection.estimated_accuracy,
        "validation_accuracy": selection.pick.validation_accuracy,
    }
    for column, value in found.items():
        if value is not None:
            return column, value
    raise InputError(
        "Tuning needs a holdout with given labels, and the run has none. Leave probe.holdout at "
        "'auto' in a spec; in your own loop, pass inputs= and given_labels= to rote.track."
    )


class AccuracyObjective:
    """The estimated clean accuracy of the run that a trial suggests; no clean label is needed.

    Within a trial, nearest-neighbor votes and the given labels of the holdout give the estimate.
    ``select_trial`` chooses among the trials, with the votes of all of them.

    A run's directory is the identity of its spec: a trial that suggests what was run before, in
    this study or in a sweep over the same store, costs nothing, and an interrupted one resumes.
    The trial remembers ``run`` (the directory), ``spec``, ``column`` (which accuracy) and ``step``
    (the checkpoint that counts), or ``error``. A run that fails is a failed trial and does not end
    the study; one that the pruner stops, or that another process is doing, is a pruned trial.

    Args:
        suggest: makes a spec, or the tables of one, from what the trial suggests.
        out: the store.
        data_dir: the folder of datasets; ``ROTE_DATA`` by default.
        rule: the rule that chooses among the checkpoints of one run (see ``rote.select``).

    Example:
        >>> import tempfile
        >>> objective = AccuracyObjective(
        ...     lambda trial: {"optimizer": {"lr": trial.suggest_float("lr", 0.01, 0.1)}},
        ...     tempfile.mkdtemp() + "/runs")
    """

    def __init__(
        self,
        suggest: Suggest,
        out: Path | str,
        *,
        data_dir: Path | str | None = None,
        rule: str = "auto",
    ) -> None:
        self._suggest = suggest
        self._store = Path(out).expanduser().absolute()
        self._data_dir = None if data_dir is None else Path(data_dir).expanduser().absolute()
        self._rule = rule

    def __call__(self, trial: "Trial") -> float:
        """Do the run in this process; the pruner is asked after every reading.

        Returns:
            The accuracy; NaN, by which Optuna knows a failed trial, if the run failed.

        Raises:
            TrialPruned: if the pruner stops it, or another process is doing the run.
            StoreError: if the store cannot be written.
            InputError: if the spec does not fit, the run has no holdout with given labels, or the
                study asks for something else.
        """
        _check_direction(trial.study)
        job = self._make_job(trial)
        optuna = require("optuna", extra="optuna")
        pruned = optuna.TrialPruned
        # An estimate at every reading is not free.
        is_pruned = not isinstance(trial.study.pruner, optuna.pruners.NopPruner)

        def watch(reading: Reading) -> None:
            if is_pruned and reading.validation_accuracy is not None:
                report_trial(trial, job.path, rule=self._rule)
                if reading.step < job.spec.epochs and trial.should_prune():
                    raise _Stopped

        try:
            with _ONE_RUN:
                event = run_job(job, watch)
        except _Stopped:
            raise pruned(
                f"Its estimate is clearly below the best. To continue the run, resume {job.path}."
            ) from None
        if isinstance(event, Busy):
            raise pruned(f"Another process is training {job.path}.")
        value = self._judge_event(event, [trial])
        return math.nan if value is None else value

    def optimize(self, study: "Study", executor: Executor, *, trials: int) -> None:
        """Do many trials, as many at a time as the executor has workers.

        If it is interrupted, the runs that were under way are the first trials of the next call.
        The pruner is not asked: the runs are in other processes.

        Args:
            study: as made by ``create_study``.
            executor: the executor that trains the runs.
            trials: the number of trials.

        Raises:
            StoreError: if the store cannot be written.
            InputError: if a spec does not fit, or the study asks for something else.
        """
        _check_direction(study)
        asked: dict[Path, list[Trial]] = {}
        try:
            with closing(executor.run(self._make_jobs(study, asked, trials))) as events:
                for event in events:
                    if event is not None and _is_final(event):
                        self._tell(study, event, asked.pop(event.job.path))
        finally:
            for trial in (trial for waiting in asked.values() for trial in waiting):
                study.tell(trial, state=_get_state("FAIL"))
                study.enqueue_trial(trial.params, user_attrs={"continues": trial.number})

    def _make_jobs(
        self, study: "Study", asked: dict[Path, list["Trial"]], trials: int
    ) -> Iterator[Job]:
        for _ in range(trials):
            trial = study.ask()
            try:
                job = self._make_job(trial)
            except BaseException:
                study.tell(trial, state=_get_state("FAIL"))
                raise
            asked.setdefault(job.path, []).append(trial)
            if len(asked[job.path]) == 1:  # or it is under way already, for another trial
                yield job

    def _make_job(self, trial: "Trial") -> Job:
        spec = self._suggest(trial)
        if not isinstance(spec, RunSpec):
            spec = RunSpec.from_dict(spec)
        path = get_run_path(self._store, spec)
        trial.set_user_attr(RUN, str(path))
        trial.set_user_attr(SPEC, spec.to_dict())
        return Job(spec, path, self._data_dir)

    def _tell(self, study: "Study", event: Event, trials: list["Trial"]) -> None:
        value = self._judge_event(event, trials)
        for trial in trials:
            if value is not None:
                study.tell(trial, value)
            else:
                study.tell(trial, state=_get_state("PRUNED" if isinstance(event, Busy) else "FAIL"))

    def _judge_event(self, event: Event, trials: list["Trial"]) -> float | None:
        """Return the objective value of a run; None if it has none."""
        match event:
            case Finished(job):
                forget_failure(job)
                values = [judge_trial(trial, job.path, rule=self._rule) for trial in trials]
                return values[0]
            case Failed(job, error) | Lost(job, error):
                record_failure(job, error)
                for trial in trials:
                    trial.set_user_attr(ERROR, get_last_line(error))
            case Blocked(job, reason):
                raise StoreError(f"Cannot write to {job.path.parent}: {reason}.")
        return None


@dataclass(frozen=True)
class ChosenTrial:
    """The trial to keep, and why.

    Attributes:
        trial: with its parameters and user attributes.
        selection: the checkpoint to keep among those of all trials, with reasons and warnings.
    """

    trial: "FrozenTrial"
    selection: Selection


def select_trial(study: "Study", rule: str = "auto", **options: Any) -> ChosenTrial:  # noqa: ANN401
    """Choose among the checkpoints of all finished trials, which vote on each other.

    Args:
        study: as made by ``create_study``.
        rule: a rule of ``rote.select``.
        options: options of ``rote.select``.

    Returns:
        The trial and the selection.

    Returns:
        The trial, and why it was chosen.

    Raises:
        InputError: if no trial is complete, one has no run directory, or the rule does not fit.

    Example:
        >>> from rote.errors import InputError
        >>> try:
        ...     select_trial(create_study())
        ... except InputError as error:
        ...     print("no trial is complete")
        no trial is complete
    """
    _check_direction(study)
    trials = study.get_trials(deepcopy=False, states=[_get_state("COMPLETE")])
    if not trials:
        raise InputError("`study` has no complete trial. Run some first.")
    without = [trial.number for trial in trials if RUN not in trial.user_attrs]
    if without:
        raise InputError(
            f"Trial {without[0]} has no run directory. Return judge_trial(trial, run) from your "
            "objective."
        )
    # Of equal trials, the first.
    first = {Path(trial.user_attrs[RUN]): trial for trial in reversed(trials)}
    table = read_table(list(first))
    selection = select(table, rule, **options)
    return ChosenTrial(first[table.paths[selection.pick.run]], selection)


def _is_final(event: Event) -> bool:
    if isinstance(event, Lost):
        return event.gives_up
    return isinstance(event, Finished | Failed | Busy | Blocked)


def _get_state(name: str) -> Any:  # noqa: ANN401
    return getattr(require("optuna", extra="optuna").trial.TrialState, name)


def _check_direction(study: "Study") -> None:
    found = [direction.name.lower() for direction in study.directions]
    if found != [DIRECTION]:
        raise InputError(
            f"Expected `study` to {DIRECTION} one value, the estimated accuracy, got {found}. Make "
            "it with rote.sweeps.create_study."
        )
