"""Optuna with ζ and training accuracy: what a trial is worth, what it leaves, how one is chosen."""

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
from rote.store import CLAIM_FILE, FAILURE_FILE, WriterLock, read_run, status_of
from rote.sweeps import (
    SusceptibilityObjective,
    create_study,
    objective_values,
    run_path,
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


def suggest(trial: Any) -> RunSpec:
    optimizer = {"name": "sgd", "lr": trial.suggest_float("lr", 0.001, 1.0, log=True)}
    return small_spec(epochs=6, optimizer=optimizer)


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


def test_a_trial_is_worth_what_its_last_reading_says(tmp_path: Path) -> None:
    study = new_study()
    study.optimize(SusceptibilityObjective(suggest, tmp_path), n_trials=4)
    for trial in study.trials:
        run = read_run(trial.user_attrs["run"])
        last = run.readings[-1]
        assert trial.values == [last.susceptibility, last.train_accuracy]
        assert trial.user_attrs["step"] == last.step == 6
        spec = RunSpec.from_dict(trial.user_attrs["spec"])
        assert spec == suggest(optuna.trial.FixedTrial(trial.params))
        assert run.path == run_path(tmp_path, spec)
    assert len({trial.values[0] for trial in study.trials}) == 4


@pytest.mark.parametrize("rule", ["before-rise", "noisy-validation"])
@pytest.mark.parametrize("column", ["susceptibility", "susceptibility_plain_relative"])
def test_another_checkpoint_may_count(rule: str, column: str, store: Path) -> None:
    study = new_study()
    objective = SusceptibilityObjective(suggest, store, checkpoint=rule, column=column)
    study.optimize(objective, n_trials=2)
    for trial in study.trials:
        path = trial.user_attrs["run"]
        step = select(path, rule, column=column).pick.step
        (reading,) = [reading for reading in read_run(path).readings if reading.step == step]
        assert trial.values == [getattr(reading, column), reading.train_accuracy]


def test_what_was_run_before_costs_nothing(tmp_path: Path) -> None:
    objective = SusceptibilityObjective(lambda trial: suggest(trial).to_dict(), tmp_path)
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
    objective = SusceptibilityObjective(fragile, tmp_path)
    study.optimize(objective, n_trials=2)
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE"]
    failed = study.trials[0]
    assert "architecture" in failed.user_attrs["error"]
    assert status_of(Path(failed.user_attrs["run"])).state == "failed"
    assert select_trial(study).trial.number == 1


def test_what_failed_before_is_forgotten_once_it_is_over(tmp_path: Path) -> None:
    spec = suggest(optuna.trial.FixedTrial({"lr": 0.1}))
    job = Job(spec, run_path(tmp_path, spec))
    record_failure(job, "a tree fell on it")
    study = new_study()
    study.enqueue_trial({"lr": 0.1})
    study.optimize(SusceptibilityObjective(suggest, tmp_path), n_trials=1)
    assert study.trials[0].state.name == "COMPLETE"
    assert not (job.path / FAILURE_FILE).exists()


def test_a_spec_that_does_not_fit_leaves_no_trial_running(tmp_path: Path) -> None:
    def wrong(trial: Any) -> dict[str, Any]:
        trial.suggest_float("lr", 0.1, 0.2)
        return {"optimizer": {"name": "sgd", "lr": -1.0}}

    study = new_study()
    with pytest.raises(InputError, match="`optimizer.lr` to be a number above 0"):
        SusceptibilityObjective(wrong, tmp_path).optimize(study, InThisProcess(), trials=2)
    assert [trial.state.name for trial in study.trials] == ["FAIL"]


def test_a_run_that_others_do_is_a_pruned_trial(tmp_path: Path) -> None:
    study = new_study()
    path = run_path(tmp_path, suggest(optuna.trial.FixedTrial({"lr": 0.1})))
    path.mkdir(parents=True)
    lock = WriterLock(path / CLAIM_FILE)
    for run in ("in this process", "on an executor"):
        study.enqueue_trial({"lr": 0.1})
        objective = SusceptibilityObjective(suggest, tmp_path)
        if run == "in this process":
            study.optimize(objective, n_trials=1)
        else:
            objective.optimize(study, InThisProcess(), trials=1)
        assert study.trials[-1].state.name == "PRUNED"
    lock.release()


def test_a_store_that_cannot_be_written_ends_the_study(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    objective = SusceptibilityObjective(suggest, tmp_path / "file")
    with pytest.raises(StoreError, match=r"Cannot write to .*file: File exists"):
        new_study().optimize(objective, n_trials=2)


@pytest.mark.parametrize("executor", [InThisProcess(), LocalExecutor(1)])
def test_an_executor_does_what_one_process_does(
    executor: Executor, store: Path, tmp_path: Path
) -> None:
    alone, together = new_study(), new_study()
    alone.optimize(SusceptibilityObjective(suggest, store), n_trials=5)
    SusceptibilityObjective(suggest, tmp_path).optimize(together, executor, trials=5)
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
    SusceptibilityObjective(suggest, tmp_path).optimize(study, executor, trials=4)
    assert len(executor.done) == 2
    values = [trial.values for trial in study.trials]
    assert values[0] == values[2] == values[3] != values[1]


def test_a_lost_run_is_a_failed_trial(tmp_path: Path) -> None:
    study = new_study()
    SusceptibilityObjective(suggest, tmp_path).optimize(study, InThisProcess(lost=1), trials=2)
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE"]
    assert study.trials[0].user_attrs["error"] == "a tree fell on it"


def test_an_interrupted_study_goes_on_with_the_same_runs(tmp_path: Path) -> None:
    class Interrupted(InThisProcess):
        def run(self, jobs: Iterable[Job]) -> Generator[Event | None]:
            for event in super().run(jobs):
                yield event
                if isinstance(event, Started) and len(self.done) == 1:
                    raise KeyboardInterrupt

    study = new_study(storage=f"sqlite:///{tmp_path}/study.db", study_name="digits")
    objective = SusceptibilityObjective(suggest, tmp_path / "runs")
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
    wrong = optuna.create_study(directions=["maximize", "maximize"])
    objective = SusceptibilityObjective(suggest, tmp_path)
    message = r"to have the directions \('minimize', 'maximize'\).*create_study"
    with pytest.raises(InputError, match=message):
        wrong.optimize(objective, n_trials=1)
    with pytest.raises(InputError, match=message):
        objective.optimize(wrong, InThisProcess(), trials=1)
    with pytest.raises(InputError, match=message):
        select_trial(wrong)
    with pytest.raises(InputError, match=r"to have a complete trial, got none"):
        select_trial(new_study())


def test_the_knee_of_the_front_is_chosen_from_values_alone() -> None:
    study = new_study()
    points = [(0.0, 0.3), (0.1, 0.8), (0.5, 0.85), (1.0, 0.9), (0.6, 0.5)]
    for number, point in enumerate(points):
        distribution = optuna.distributions.IntDistribution(0, 9)
        study.add_trial(
            optuna.trial.create_trial(
                params={"x": number}, distributions={"x": distribution}, values=point
            )
        )
    chosen = select_trial(study)
    # The knee by hand: accuracy less ζ, both from 0 to 1 on the front.
    height = [(accuracy - 0.3) / 0.6 - zeta for zeta, accuracy in points]
    assert chosen.trial.params == {"x": int(np.argmax(height))} == {"x": 1}
    assert "knee" in " ".join(map(str, chosen.selection.reasons))
    assert {trial.number for trial in study.best_trials} == {0, 1, 2, 3}


@pytest.mark.parametrize("rule", ["pareto", "staged", "consensus", "noisy-validation"])
@pytest.mark.parametrize("column", ["susceptibility", "susceptibility_plain"])
def test_a_trial_is_chosen_by_the_checkpoint_that_counted(
    rule: str, column: str, store: Path
) -> None:
    study = new_study()
    objective = SusceptibilityObjective(suggest, store, checkpoint="before-rise", column=column)
    study.enqueue_trial({"lr": 0.1})
    study.enqueue_trial({"lr": 0.1})  # the same run twice is one candidate
    study.optimize(objective, n_trials=5)
    chosen = select_trial(study, rule)
    assert len(chosen.selection.table) == 4
    assert chosen.selection.pick.step == chosen.trial.user_attrs["step"]
    assert chosen.selection.pick.path == Path(chosen.trial.user_attrs["run"])
    assert chosen.selection.pick.susceptibility == chosen.trial.values[0]
    if rule == "noisy-validation":
        best = max(chosen.selection.table["validation_accuracy"])
        assert chosen.selection.pick.validation_accuracy == best


def test_a_loop_of_your_own_reports_the_same_two_numbers() -> None:
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracker = rote.track(model, optimizer, inputs=torch.randn(8, 4), num_classes=3)
    with pytest.raises(InputError, match=r"a reading with `train_accuracy`, got none"):
        objective_values(tracker)
    tracker.probe()
    with pytest.raises(InputError, match=r"a reading with `train_accuracy`, got none"):
        objective_values(tracker)
    tracker.probe(train_accuracy=0.75)
    mean = sum(reading.drop for reading in tracker.readings) / 2
    assert objective_values(tracker) == pytest.approx((mean, 0.75))


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rote\[optuna\]'"):
        create_study()


def test_optuna_is_loaded_when_it_is_used() -> None:
    look = "import sys, rote.sweeps.tuning; sys.exit('optuna' in sys.modules)"
    subprocess.run([sys.executable, "-c", look], check=True)
    assert tuning.DIRECTIONS == ("minimize", "maximize")


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
    test_accuracy = [float(row[3].rstrip("%")) for row in rows]
    assert float(chosen[3].rstrip("%")) > np.median(test_accuracy)
