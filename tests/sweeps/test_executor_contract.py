"""What holds for every executor."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rote.errors import InputError
from rote.store import WriterLock, read_status
from rote.store.run_directory import CLAIM_FILE, DRAFT_FILE
from rote.sweeps.executor import Blocked, Busy, Executor, Failed, Finished, Job, Lost, Started
from rote.sweeps.local_executor import LocalExecutor, count_cores
from rote.workloads import train
from tests.sweeps import full_disk
from tests.sweeps.executors import FACTORIES
from tests.sweeps.ray_cluster import DATA
from tests.sweeps.sweeping import contents, in_time, is_alive, job_of, lines, owner, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

WORKERS = 2


@pytest.fixture(params=["local", "ray"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Executor:
    monkeypatch.setenv("ROTE_DATA", DATA)
    return FACTORIES[request.param](WORKERS, 2)


def test_all_jobs_are_done_and_reported(executor: Executor, tmp_path: Path) -> None:
    jobs = [job_of(tmp_path, seed=seed) for seed in range(5)]
    assert executor.workers == WORKERS
    events = [event for event in in_time(executor.run(jobs)) if event is not None]
    for job in jobs:
        assert [event for event in events if event.job == job] == [Started(job), Finished(job)]
        assert read_status(job.path).state == "finished"
    train(jobs[3].spec, tmp_path / "here")
    assert contents(jobs[3].path) == contents(tmp_path / "here")
    assert list(executor.run([])) == []
    again = [event for event in in_time(executor.run(jobs[:1])) if event is not None]
    assert again == [Started(jobs[0]), Finished(jobs[0], was_over=True)]


def test_jobs_are_taken_when_there_is_room(executor: Executor, tmp_path: Path) -> None:
    taken = 0

    def jobs() -> Iterator[Job]:
        nonlocal taken
        for seed in range(12):
            taken += 1
            yield job_of(tmp_path, seed=seed, epochs=1)

    over = 0
    for event in in_time(executor.run(jobs())):
        over += isinstance(event, Finished)
        assert taken <= over + WORKERS + 2
    assert over == taken == 12


def test_a_failure_is_reported_with_its_traceback_and_other_runs_continue(
    executor: Executor, tmp_path: Path
) -> None:
    bad = job_of(tmp_path, data={"name": "npz", "path": "nowhere.npz"})
    good = [job_of(tmp_path, seed=seed) for seed in range(3)]
    events = list(in_time(executor.run([good[0], bad, *good[1:]])))
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.job == bad
    assert failed.error.startswith("Traceback")
    assert "`data.path` names no file" in failed.error
    assert "nowhere.npz" in failed.error
    assert {event.job.path for event in events if isinstance(event, Finished)} == {
        job.path for job in good
    }


def test_run_of_a_killed_worker_resumes_bit_identically(executor: Executor, tmp_path: Path) -> None:
    grave = tmp_path / "grave"
    network = {
        "name": "tests.sweeps.mortal_network:MortalNetwork",
        "options": {"grave": str(grave)},
    }
    optimizer = {"name": "sgd", "lr": 0.001}
    job = job_of(tmp_path, epochs=40, architecture=network, optimizer=optimizer)
    others = [job_of(tmp_path, seed=seed) for seed in range(3)]
    events = list(in_time(executor.run([job, *others])))
    mine = [event for event in events if event is not None and event.job == job]
    assert [type(event) for event in mine] == [Started, Lost, Started, Finished]
    assert not any(event.gives_up for event in mine if isinstance(event, Lost))
    assert sum(isinstance(event, Finished) for event in events) == 4
    assert not is_alive(int(grave.read_text()))
    train(job.spec, tmp_path / "undisturbed")
    assert contents(job.path) == contents(tmp_path / "undisturbed")
    assert '"kind":"resume"' in (job.path / "journal.jsonl").read_text()


def test_a_run_that_kills_its_workers_is_given_up(executor: Executor, tmp_path: Path) -> None:
    deadly = job_of(tmp_path, architecture="os:abort")
    harmless = job_of(tmp_path)
    events = [event for event in in_time(executor.run([deadly, harmless])) if event is not None]
    told = [event for event in events if event.job == deadly]
    assert [type(event) for event in told] == [Started, Lost, Started, Lost]
    assert [event.gives_up for event in told if isinstance(event, Lost)] == [False, True]
    assert Finished(harmless) in events


def test_waiting_returns_events_and_closing_stops_the_workers(
    executor: Executor, tmp_path: Path
) -> None:
    jobs = [job_of(tmp_path, seed=seed, epochs=100_000) for seed in range(WORKERS)]
    with closing(executor.run(jobs)) as events:
        silent = 0
        for event in in_time(events):
            silent += event is None
            if silent > 2 and all(lines(job.path) > 5 for job in jobs):
                break
    workers = {owner(job.path) for job in jobs}
    assert len(workers) == WORKERS
    until(lambda: not any(map(is_alive, workers)))
    for job in jobs:
        WriterLock(job.path / CLAIM_FILE).release()
        assert read_status(job.path).state == "interrupted"


def test_a_run_that_another_process_holds_is_left_to_it(executor: Executor, tmp_path: Path) -> None:
    held, free = job_of(tmp_path, seed=1), job_of(tmp_path, seed=2)
    held.path.mkdir(parents=True)
    lock = WriterLock(held.path / CLAIM_FILE)
    events = [event for event in in_time(executor.run([held, free])) if event is not None]
    lock.release()
    assert [event for event in events if event.job == held] == [Started(held), Busy(held)]
    assert Finished(free) in events
    assert lines(held.path) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_reported_as_blocked_not_as_a_failure(
    executor: Executor, tmp_path: Path
) -> None:
    (tmp_path / "note").write_text(DRAFT_FILE)
    job = job_of(tmp_path, architecture=full_disk.network(tmp_path / "note"))
    events = [event for event in in_time(executor.run([job])) if event is not None]
    assert events == [Started(job), Blocked(job, "No space left on device")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_mismatched_state_leaves_no_partial_files(executor: Executor, tmp_path: Path) -> None:
    note = tmp_path / "note"
    job = job_of(tmp_path, epochs=5, architecture=full_disk.network(note))

    def cut(reading: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", Path.open)  # put back what the network does here
        with pytest.raises(KeyboardInterrupt):
            train(job.spec, job.path, progress=cut)
    note.write_text("resume.draft")
    events = [event for event in in_time(executor.run([job])) if event is not None]
    assert events == [Started(job), Blocked(job, "No space left on device")]
    assert not (job.path / "resume.draft").exists()
    note.unlink()
    events = [event for event in in_time(executor.run([job])) if event is not None]
    assert events == [Started(job), Finished(job)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", Path.open)
        train(job.spec, tmp_path / "undisturbed")
    assert contents(job.path) == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("workers", "attempts", "wrong"), [(0, 1, "workers"), (None, 0, "attempts"), (-1, 0, "workers")]
)
def test_numbers_below_one_are_refused(workers: int | None, attempts: int, wrong: str) -> None:
    with pytest.raises(InputError, match=f"`{wrong}` to be an integer of at least 1, got "):
        LocalExecutor(workers, attempts=attempts)


def test_numbers_from_one_on_pass() -> None:
    assert LocalExecutor(1, attempts=1).workers == 1
    assert LocalExecutor(None, attempts=1).workers == count_cores()
