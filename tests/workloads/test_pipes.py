"""A pipe in the place of a run's file is refused: whoever opens it to read waits for ever."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rote.errors import CorruptRunError, InputError
from rote.store import LABELS_FILE, WORKLOAD_FILE, read_data_file
from rote.workloads.data.sample_views import view_samples
from rote.workloads.run_folder import read_division, read_workload
from tests.workloads.small_runs import small_spec

DIGITS = {
    "data": {"inputs": "images", "source": "scikit-learn"},
    "spec": small_spec(noise={"model": "none"}).to_dict(),
}


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that makes a pipe; one who reads it finds it empty instead of waiting."""
    made = []

    def make(name: str) -> Path:
        path = tmp_path / name
        os.mkfifo(path)
        writer = threading.Thread(target=lambda: path.open("wb").close())
        writer.start()
        made.append((path, writer))
        return path

    yield make
    for path, writer in made:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        writer.join()
        os.close(reader)


def test_labels_that_are_a_pipe_are_refused(pipe: Callable[[str], Path]) -> None:
    labels = pipe(LABELS_FILE)
    with pytest.raises(InputError, match="not a regular file"):
        view_samples(DIGITS, labels, {0: None})
    with pytest.raises(CorruptRunError, match="not a regular file"):
        read_division(labels.parent)


def test_a_workload_that_is_a_pipe_is_refused(pipe: Callable[[str], Path]) -> None:
    run = pipe(WORKLOAD_FILE).parent
    with pytest.raises(CorruptRunError, match="not a regular file"):
        read_workload(run)
    assert read_data_file(run) is None
