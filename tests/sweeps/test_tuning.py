"""Optuna by the estimated accuracy: what a trial is worth, what it leaves, how one is chosen."""

import doctest
import subprocess
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rote
from rote.errors import InputError, MissingExtraError, StoreError
from rote.selection import select
from rote.store import CLAIM_FILE, FAILURE_FILE, WriterLock, read_run, read_status
from rote.sweeps import (
    AccuracyObjective,
    create_study,
    get_run_path,
    judge_trial,
    make_pruner,
    report_trial,
    select_trial,
    tuning,
)
from rote.sweeps.executor import Event, Executor, Job, Lost, Started, record_failure
from rote.sweeps.local_executor import LocalExecutor
from rote.sweeps.worker import run_job
from rote.workloads import RunSpec
from tests.workloads.small_runs import small_spec

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sweeps")]

optuna = pytest.importorskip("optuna", reason="needs Optuna (extra `optuna`)")
optuna.logging.set_verbosity(optuna.logging.ERROR)

ROOT = Path(__file__).parents[2]
HOLDOUT = {"holdout_size": 64, "batch": 8}


def suggest(trial: Any) -> RunSpec:
    optimizer = {"name": "sgd", "lr": trial.suggest_float("lr", 0.001, 1.0, log=True)}
    return small_spec(
        epochs=6, optimizer=optimizer, data={"name": "digits", "train_size": 200}, probe=HOLDOUT
    )


def new_study(**options: Any) -> Any:
    return create_study(sampler=optuna.samplers.RandomSampler(seed=0), **options)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that tests of the same trials share: what was run before costs nothing."""
    return tmp_path_factory.mktemp("store")


class InThisProcess:
    """An executor that does one job after the other, unless it is told to fail."""

    workers = 1

    def __init__(self, lost: int = 0) -> None:
        self.done: list[Path] = []
        self._lost = lost

    def run(self, jobs: Iterable[Job]) -> Generator[Event | None]:
        for number, job in enumerate(jobs):
            yield Started(job)
            yield None
            if number < self._lost:
                yield Lost(job, "a tree fell on it")
                yield Lost(job, "a tree fell on it", gives_up=True)
                continue
            self.done.append(job.path)
            yield run_job(job)


def test_a_trial_is_worth_the_estimate_of_its_best_checkpoint(tmp_path: Path) -> None:
    study = new_study()
    study.optimize(AccuracyObjective(suggest, tmp_path), n_trials=4)
    for trial in study.trials:
        alone = select(trial.user_attrs["run"])
        assert alone.rule == "posterior"  # by nearest-neighbor votes
        assert trial.value == alone.estimated_accuracy
        assert trial.user_attrs["step"] == alone.pick.step
        assert trial.user_attrs["column"] == "estimated_accuracy"
        spec = RunSpec.from_dict(trial.user_attrs["spec"])
        assert spec == suggest(optuna.trial.FixedTrial(trial.params))
        assert trial.user_attrs["run"] == str(get_run_path(tmp_path, spec))
    assert len({trial.value for trial in study.trials}) == 4


def test_another_rule_may_choose_the_checkpoint(store: Path) -> None:
    study = new_study()
    study.optimize(AccuracyObjective(suggest, store, rule="noisy-validation"), n_trials=2)
    for trial in study.trials:
        readings = read_run(trial.user_attrs["run"]).readings
        accuracies = [reading.validation_accuracy for reading in readings]
        assert trial.value == max(known for known in accuracies if known is not None)
        assert trial.user_attrs["column"] == "validation_accuracy"


def test_a_run_without_given_labels_cannot_be_tuned(tmp_path: Path) -> None:
    def without(trial: Any) -> RunSpec:
        return small_spec(seed=trial.suggest_int("seed", 0, 9), probe={"holdout": "train"})

    with pytest.raises(InputError, match="holdout with given labels"):
        new_study().optimize(AccuracyObjective(without, tmp_path), n_trials=1)


def test_the_pruner_stops_what_is_surely_below_the_best() -> None:
    study = create_study(pruner=make_pruner(warmup=2))
    best = study.ask()
    for step, value in ((1, 0.9), (2, 0.5), (3, 0.8)):
        best.report(value, step)
    study.tell(best, 0.8)
    # At step 3 the best had reached .9 at step 1; the interval decides, and not the estimate.
    cases = [(1, 0.2, False), (2, 0.89, True), (2, 0.91, False), (3, 0.89, True)]
    for step, high, is_stopped in cases:
        trial = study.ask()
        trial.report(0.1, step)
        trial.set_user_attr("high", {str(step): high})
        assert trial.should_prune() is is_stopped
    unknown = study.ask()
    unknown.report(0.1, 3)
    assert unknown.should_prune() is False


def test_a_hopeless_run_is_stopped_and_can_be_resumed(tmp_path: Path) -> None:
    def wide(trial: Any) -> RunSpec:
        optimizer = {"name": "sgd", "lr": trial.suggest_float("lr", 1e-6, 1.0, log=True)}
        return small_spec(
            epochs=8,
            optimizer=optimizer,
            architecture={"name": "mlp", "options": {"width": 64}},
            data={"name": "digits"},
            probe={"holdout_size": 300},
        )

    study = create_study(pruner=make_pruner(warmup=3))
    for lr in (0.1, 1e-6):
        study.enqueue_trial({"lr": lr})
    study.optimize(AccuracyObjective(wide, tmp_path), n_trials=2)
    assert study.trials[0].value > 0.7
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED"]
    stopped = study.trials[1]
    spec = RunSpec.from_dict(stopped.user_attrs["spec"])
    path = get_run_path(tmp_path, spec)
    steps = [reading.step for reading in read_run(path).readings]
    assert steps == list(range(1, steps[-1] + 1))
    assert 3 <= steps[-1] < 8
    assert stopped.user_attrs["high"][str(steps[-1])] < study.best_value
    assert select_trial(study).trial.number == 0
    run_job(Job(spec, path))
    assert read_status(path).state == "finished"


def test_finished_runs_are_not_repeated_in_a_study(tmp_path: Path) -> None:
    objective = AccuracyObjective(lambda trial: suggest(trial).to_dict(), tmp_path)
    first, second = new_study(), new_study()
    first.optimize(objective, n_trials=2)
    journals = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/journal.jsonl")}
    second.optimize(objective, n_trials=2)
    assert [trial.values for trial in first.trials] == [trial.values for trial in second.trials]
    assert journals == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/journal.jsonl")}


def test_a_failed_run_is_a_failed_trial(tmp_path: Path) -> None:
    def fragile(trial: Any) -> RunSpec:
        name = trial.suggest_categorical("network", ["mlp", "math:nothing"])
        return small_spec(architecture={"name": name})

    study = new_study()
    for name in ("math:nothing", "mlp"):
        study.enqueue_trial({"network": name})
    objective = AccuracyObjective(fragile, tmp_path)
    study.optimize(objective, n_trials=2)
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE"]
    failed = study.trials[0]
    assert "architecture" in failed.user_attrs["error"]
    assert read_status(Path(failed.user_attrs["run"])).state == "failed"
    assert select_trial(study).trial.number == 1


def test_earlier_failure_is_cleared_when_the_run_finishes(tmp_path: Path) -> None:
    spec = suggest(optuna.trial.FixedTrial({"lr": 0.1}))
    job = Job(spec, get_run_path(tmp_path, spec))
    record_failure(job, "a tree fell on it")
    study = new_study()
    study.enqueue_trial({"lr": 0.1})
    study.optimize(AccuracyObjective(suggest, tmp_path), n_trials=1)
    assert study.trials[0].state.name == "COMPLETE"
    assert not (job.path / FAILURE_FILE).exists()


def test_a_spec_that_does_not_fit_leaves_no_trial_running(tmp_path: Path) -> None:
    def wrong(trial: Any) -> dict[str, Any]:
        trial.suggest_float("lr", 0.1, 0.2)
        return {"optimizer": {"name": "sgd", "lr": -1.0}}

    study = new_study()
    with pytest.raises(InputError, match="`optimizer.lr` to be a number above 0"):
        AccuracyObjective(wrong, tmp_path).optimize(study, InThisProcess(), trials=2)
    assert [trial.state.name for trial in study.trials] == ["FAIL"]


def test_a_run_claimed_by_another_process_is_a_pruned_trial(tmp_path: Path) -> None:
    study = new_study()
    path = get_run_path(tmp_path, suggest(optuna.trial.FixedTrial({"lr": 0.1})))
    path.mkdir(parents=True)
    lock = WriterLock(path / CLAIM_FILE)
    for run in ("in this process", "on an executor"):
        study.enqueue_trial({"lr": 0.1})
        objective = AccuracyObjective(suggest, tmp_path)
        if run == "in this process":
            study.optimize(objective, n_trials=1)
        else:
            objective.optimize(study, InThisProcess(), trials=1)
        assert study.trials[-1].state.name == "PRUNED"
    lock.release()


def test_a_store_that_cannot_be_written_ends_the_study(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    objective = AccuracyObjective(suggest, tmp_path / "file")
    with pytest.raises(StoreError, match=r"Cannot write to .*file: File exists"):
        new_study().optimize(objective, n_trials=2)


@pytest.mark.parametrize("executor", [InThisProcess(), LocalExecutor(1)])
def test_an_executor_does_what_one_process_does(
    executor: Executor, store: Path, tmp_path: Path
) -> None:
    alone, together = new_study(), new_study()
    alone.optimize(AccuracyObjective(suggest, store), n_trials=5)
    AccuracyObjective(suggest, tmp_path).optimize(together, executor, trials=5)
    for one, other in zip(alone.trials, together.trials, strict=True):
        assert (one.params, one.values) == (other.params, other.values)


def test_trials_of_the_same_run_share_it(tmp_path: Path) -> None:
    class Greedy(InThisProcess):
        """Takes all jobs before it does any."""

        def run(self, jobs: Iterable[Job]) -> Generator[Event | None]:
            yield from super().run(list(jobs))

    study, executor = new_study(), Greedy()
    for lr in (0.1, 0.2, 0.1, 0.1):
        study.enqueue_trial({"lr": lr})
    AccuracyObjective(suggest, tmp_path).optimize(study, executor, trials=4)
    assert len(executor.done) == 2
    values = [trial.values for trial in study.trials]
    assert values[0] == values[2] == values[3] != values[1]


def test_a_lost_run_is_a_failed_trial(tmp_path: Path) -> None:
    study = new_study()
    AccuracyObjective(suggest, tmp_path).optimize(study, InThisProcess(lost=1), trials=2)
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE"]
    assert study.trials[0].user_attrs["error"] == "a tree fell on it"


def test_an_interrupted_study_continues_with_the_same_runs(tmp_path: Path) -> None:
    class Interrupted(InThisProcess):
        def run(self, jobs: Iterable[Job]) -> Generator[Event | None]:
            for event in super().run(jobs):
                yield event
                if isinstance(event, Started) and len(self.done) == 1:
                    raise KeyboardInterrupt

    study = new_study(storage=f"sqlite:///{tmp_path}/study.db", study_name="digits")
    objective = AccuracyObjective(suggest, tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt):
        objective.optimize(study, Interrupted(), trials=3)
    states = [trial.state.name for trial in study.trials]
    assert states == ["COMPLETE", "FAIL", "WAITING"]
    study = new_study(
        storage=f"sqlite:///{tmp_path}/study.db", study_name="digits", load_if_exists=True
    )
    objective.optimize(study, InThisProcess(), trials=1)
    assert study.trials[2].state.name == "COMPLETE"
    assert study.trials[2].params == study.trials[1].params
    assert study.trials[2].user_attrs["continues"] == 1


def test_a_study_of_something_else_is_refused(tmp_path: Path) -> None:
    wrong = optuna.create_study(directions=["minimize", "maximize"])
    objective = AccuracyObjective(suggest, tmp_path)
    message = r"to maximize one value.*create_study"
    with pytest.raises(InputError, match=message):
        wrong.optimize(objective, n_trials=1)
    with pytest.raises(InputError, match=message):
        objective.optimize(wrong, InThisProcess(), trials=1)
    with pytest.raises(InputError, match=message):
        select_trial(wrong)
    with pytest.raises(InputError, match=r"no complete trial"):
        select_trial(new_study())


@pytest.mark.parametrize("rule", ["auto", "noisy-validation"])
def test_a_trial_is_chosen_by_the_votes_of_all(rule: str, store: Path) -> None:
    study = new_study()
    objective = AccuracyObjective(suggest, store)
    study.enqueue_trial({"lr": 0.1})
    study.enqueue_trial({"lr": 0.1})  # the same run twice votes once
    study.optimize(objective, n_trials=5)
    chosen = select_trial(study, rule)
    runs = sorted({trial.user_attrs["run"] for trial in study.trials})
    together = select([Path(run) for run in runs], rule)
    assert len(runs) == 4
    assert chosen.selection.pick == together.pick
    assert chosen.selection.rule == together.rule == {"auto": "posterior"}.get(rule, rule)
    assert chosen.selection.pick.path == Path(chosen.trial.user_attrs["run"])
    assert len(chosen.selection.table) == 4 * 6


def test_a_custom_training_loop_is_judged_by_its_run(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (160,), generator=generator)
    inputs = torch.randn(160, 4, generator=generator) + labels[:, None]
    study = new_study()
    trial = study.ask()
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracker = rote.track(
        model,
        optimizer,
        inputs=inputs[:80],
        given_labels=labels[:80],
        num_classes=3,
        save_to=tmp_path / "run",
        policy=rote.ProbePolicy(batch=32),
        neighbor_votes=rote.neighbor_votes(inputs[80:], labels[80:], inputs[:80], num_classes=3),
    )
    for _ in range(3):
        tracker.probe(train_accuracy=0.5)
        report_trial(trial, tmp_path / "run")
    tracker.close()
    study.tell(trial, judge_trial(trial, tmp_path / "run"))
    (told,) = study.trials
    assert list(told.intermediate_values) == [1, 2, 3]
    assert told.value == select(tmp_path / "run").estimated_accuracy
    assert sorted(told.user_attrs["high"]) == ["1", "2", "3"]
    assert select_trial(study).trial.number == 0
    study.add_trial(optuna.trial.create_trial(value=0.5))
    with pytest.raises(InputError, match=r"Trial 1 has no run directory.*judge_trial"):
        select_trial(study)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rote\[optuna\]'"):
        create_study()


def test_optuna_is_loaded_when_it_is_used() -> None:
    look = "import sys, rote.sweeps.tuning; sys.exit('optuna' in sys.modules)"
    subprocess.run([sys.executable, "-c", look], check=True)
    assert tuning.DIRECTION == "maximize"


def test_the_page_about_tuning_runs() -> None:
    result = doctest.testfile(str(ROOT / "docs" / "tuning.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.full
def test_the_example_finds_a_good_network(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "optuna_digits.py", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert len(rows) == 12
    page = (ROOT / "docs" / "tuning.md").read_text()
    assert done.stdout.splitlines()[0] in page
    (chosen,) = [row for row in rows if row[-1] == "*"]
    test_accuracy = [float(row[2].rstrip("%")) for row in rows]
    assert float(chosen[2].rstrip("%")) > np.median(test_accuracy)
