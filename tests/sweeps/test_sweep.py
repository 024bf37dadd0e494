"""A sweep does what is not over, once, and says what became of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.errors import DamagedStateWarning, StoreError
from rote.store import WriterLock, read_status, seal_journal
from rote.store.run_directory import CLAIM_FILE, DRAFT_FILE
from rote.sweeps import LocalExecutor, Progress, Sweep, get_run_path
from rote.sweeps.executor import Event, Failed, Finished, Job, Started
from rote.workloads import RunSpec, train
from tests.sweeps import full_disk
from tests.sweeps.sweeping import contents
from tests.workloads.small_runs import small_spec

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sweeps")]


class PowerCut(BaseException):
    """Ends a run without asking."""


def cut(_: Any) -> None:
    raise PowerCut


def sweep(store: Path, specs: list[RunSpec], watch: Any = None) -> Progress:
    return Sweep(specs, store).run(LocalExecutor(2), watch)


def test_finished_runs_are_skipped_and_interrupted_runs_resume(tmp_path: Path) -> None:
    specs = [small_spec(seed=seed) for seed in range(4)]
    over, interrupted = (get_run_path(tmp_path, spec) for spec in specs[:2])
    train(specs[0], over)
    with pytest.raises(PowerCut):
        train(specs[1], interrupted, progress=cut)
    before = {file: file.stat().st_mtime_ns for file in over.rglob("*")}
    plan = Sweep(specs, tmp_path)
    assert plan.survey() == {
        "finished": 1,
        "running": 0,
        "interrupted": 1,
        "failed": 0,
        "new": 2,
        "tracked": 0,
    }
    assert list(plan.list_unfinished()) == specs[1:]
    done = plan.run(LocalExecutor(2))
    assert (done.total, done.skipped, done.finished, done.failed) == (4, 1, 3, {})
    assert {file: file.stat().st_mtime_ns for file in over.rglob("*")} == before
    assert '"kind":"resume"' in (interrupted / "journal.jsonl").read_text()
    for spec in specs:
        train(spec, tmp_path / "alone" / spec.identity)
        assert contents(get_run_path(tmp_path, spec)) == contents(
            tmp_path / "alone" / spec.identity
        )
    changed = [*specs, small_spec(seed=0, batch=20), small_spec(seed=0, name="called otherwise")]
    done = sweep(tmp_path, changed)
    assert (done.skipped, done.finished) == (5, 1)
    assert done.to_dict()["left"] == 0


def test_the_sweep_reports_a_damaged_state(tmp_path: Path) -> None:
    spec = small_spec(epochs=4)
    interrupted = get_run_path(tmp_path, spec)

    def stop(reading: Any) -> None:
        if reading.step == 3:
            raise PowerCut

    with pytest.raises(PowerCut):
        train(spec, interrupted, progress=stop)
    state = bytearray((interrupted / "resume.pt").read_bytes())
    state[-1] ^= 4
    (interrupted / "resume.pt").write_bytes(state)
    with pytest.warns(DamagedStateWarning, match="resumes from the state before it"):
        assert sweep(tmp_path, [spec]).finished == 1
    train(spec, tmp_path / "alone")
    assert contents(interrupted) == contents(tmp_path / "alone")


def test_a_failure_is_recorded_and_forgotten_when_the_run_is_over(tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    bad = small_spec(data={"name": "npz", "path": str(file)}, name="bad", noise="none")
    specs, told = [small_spec(), bad], []

    def watch(_: Progress, event: Event | None) -> None:
        told.append(event)

    done = sweep(tmp_path / "store", specs, watch)
    record = get_run_path(tmp_path / "store", bad) / "failure.json"
    assert (done.finished, done.done, list(done.failed)) == (1, 1, ["bad"])
    assert done.failed["bad"].startswith("rote.workloads.spec.section.FieldError: `data.path`")
    assert done.to_dict()["failed"][0]["path"] == str(record.parent)
    written = json.loads(record.read_text())
    assert written["error"].startswith("Traceback")
    assert written["identity"] == bad.identity
    assert RunSpec.from_dict(written["spec"]) == bad
    assert sum(isinstance(event, Failed) for event in told) == 1  # tried once, not again
    baseline = read_status(record.parent)
    assert (baseline.state, baseline.name, baseline.identity) == ("failed", "bad", bad.identity)
    generator = np.random.default_rng(0)
    arrays = {"x_train": generator.random((60, 5), np.float32), "y_train": np.arange(60) % 3}
    np.savez(file, **arrays)
    done = sweep(tmp_path / "store", specs)
    assert (done.skipped, done.finished, done.failed) == (1, 1, {})
    assert not record.exists()
    assert read_status(record.parent).state == "finished"


def test_a_run_released_by_another_process_is_taken_over(tmp_path: Path) -> None:
    specs = [small_spec(seed=seed) for seed in range(2)]
    path = get_run_path(tmp_path, specs[0])
    path.mkdir()
    lock, waited = WriterLock(path / CLAIM_FILE), 0

    def watch(progress: Progress, _: Event | None) -> None:
        nonlocal waited
        if progress.elsewhere and progress.finished:
            waited += 1
            if waited == 2:
                lock.release()

    done = sweep(tmp_path, specs, watch)
    assert waited >= 2
    assert (done.finished, done.skipped, done.elsewhere) == (2, 0, 0)


def test_a_run_that_another_process_ends_is_not_run_again(tmp_path: Path) -> None:
    spec = small_spec()
    path = get_run_path(tmp_path, spec)
    path.mkdir()
    lock: WriterLock | None = WriterLock(path / CLAIM_FILE)
    journal = b""

    def watch(progress: Progress, _: Event | None) -> None:
        nonlocal lock, journal
        if progress.elsewhere and lock is not None:
            lock.release()
            lock = None
            train(spec, path)
            journal = (path / "journal.jsonl").read_bytes()

    done = sweep(tmp_path, [spec], watch)
    assert (done.finished, done.skipped) == (0, 1)
    assert (path / "journal.jsonl").read_bytes() == journal != b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_stops_the_sweep_with_one_message(tmp_path: Path) -> None:
    store, note = tmp_path / "store", tmp_path / "note"
    specs = [small_spec(seed=seed) for seed in range(30)]
    specs[3] = small_spec(seed=3, architecture=full_disk.network(note))
    note.write_text(DRAFT_FILE)
    with pytest.raises(StoreError, match=r"No space left on device\. The sweep stopped after"):
        sweep(store, specs)
    assert Sweep(specs, store).survey()["finished"] < 20
    note.unlink()
    assert sweep(store, specs).done == 30


def test_a_store_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(StoreError, match="Cannot write to .*Not a directory"):
        sweep(tmp_path / "file" / "store", [small_spec()])


def test_the_time_left_follows_from_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Progress(total=6, skipped=1, _began=now)
    assert progress.seconds_left is None
    jobs = [Job(small_spec(seed=seed, epochs=4), tmp_path / str(seed)) for seed in range(2)]
    for job in jobs:
        job.path.mkdir()
        progress.note(Started(job))
    now = 130.0
    progress.note(Finished(jobs[0]))
    line = '{"schema":1,"kind":"reading","step":2,"susceptibility":0.25,"train_accuracy":0.5}\n'
    (jobs[1].path / "journal.jsonl").write_text(line)
    seal_journal(jobs[1].path / "journal.jsonl")
    progress.look()
    # One run and a half in 30 s; three and a half are left.
    assert progress.seconds_left == pytest.approx(30 / 1.5 * 3.5)
    (running,) = progress.running.values()
    assert (running.last.susceptibility, running.last.train_accuracy) == (0.25, 0.5)
