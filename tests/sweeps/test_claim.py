"""A run has one trainer, from the first look at its directory to the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rote.errors import RunExistsError, RunLockedError
from rote.store import CLAIM_FILE, WriterLock
from rote.workloads import train
from rote.workloads.run_folder import RunFolder
from tests.workloads.small_runs import numbers, small_spec

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_that_another_process_ended_meanwhile_is_not_written_again(
    begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, path, claim = small_spec(), tmp_path / "run", RunFolder.claim
    if begun:

        def cut(_: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(spec, path, progress=cut)
    journals = []

    @contextmanager
    def late(folder: RunFolder) -> Iterator[None]:
        with monkeypatch.context() as undone:
            undone.setattr(RunFolder, "claim", claim)
            train(spec, path)
        journals.append((path / "journal.jsonl").read_bytes())
        with claim(folder):
            yield

    monkeypatch.setattr(RunFolder, "claim", late)
    run = train(spec, path)
    assert run.model is None  # nothing was trained
    assert numbers(run.readings) == numbers(train(spec).readings)
    assert journals == [(path / "journal.jsonl").read_bytes()]


def test_a_claimed_run_is_refused_before_its_data_are_prepared(tmp_path: Path) -> None:
    spec = small_spec(data={"name": "npz", "path": "nowhere.npz"})
    lock = WriterLock(tmp_path / CLAIM_FILE)
    with pytest.raises(RunLockedError, match="is being written by process"):
        train(spec, tmp_path)
    lock.release()


def test_foreign_directory_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunExistsError, match="is in use"):
        train(small_spec(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
