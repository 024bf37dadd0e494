"""The labels and the votes that a verdict is built on: what is on disk is what was written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.errors import CorruptRunError, DamagedRowsWarning
from rote.store import (
    NEIGHBORS_FILE,
    RunDirectory,
    compute_checksums,
    encode_votes,
    read_run,
    read_table,
)
from rote.store.holdout import write_neighbor_votes

VOTES = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)


def make_run(path: Path, labels: str | None = "1 -1", **more: Any) -> Path:
    contents = {NEIGHBORS_FILE: encode_votes(VOTES)}
    if labels is not None:
        contents["given_labels"] = labels.encode()
    description = {"num_classes": 2, "holdout": {"size": 2, "predictions": [2]}}
    sums = compute_checksums(contents)
    RunDirectory.create(path, {**description, "given_labels": labels, **sums, **more}).close()
    write_neighbor_votes(path, VOTES)
    return path


def edit(path: Path, **changes: Any) -> None:
    description = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(description | changes))


def test_labels_and_votes_are_read_as_they_were_written(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    table = read_table(tmp_path)
    np.testing.assert_array_equal(table.read_given_labels("run"), [1, -1])
    np.testing.assert_array_equal(table.read_neighbor_votes("run"), VOTES)


def test_a_label_that_was_changed_is_noticed(tmp_path: Path) -> None:
    edit(make_run(tmp_path / "run"), given_labels="0 -1")
    for read in (read_run, read_table):
        with pytest.raises(CorruptRunError, match="`given_labels` in .*run.json were changed"):
            read(tmp_path / "run")
    edit(tmp_path / "run", checksums=["anything"])  # nobody knows
    assert read_table(tmp_path / "run").read_given_labels("run").tolist() == [0, -1]  # type: ignore[union-attr]


@pytest.mark.parametrize("change", ["votes", "gone"])
def test_votes_that_were_changed_are_noticed(tmp_path: Path, change: str) -> None:
    file = make_run(tmp_path / "run") / NEIGHBORS_FILE
    if change == "votes":
        file.write_bytes(encode_votes(VOTES[::-1]))  # they could be the votes of a run
    else:
        file.unlink()
    with pytest.warns(DamagedRowsWarning, match=r"votes.npy: it is gone, or not as it was written"):
        assert read_table(tmp_path).read_neighbor_votes("run") is None


@pytest.mark.parametrize("labels", ["1 x", "9" * 400, "1.5"])
def test_invalid_labels_are_skipped(tmp_path: Path, labels: str) -> None:
    edit(make_run(tmp_path / "run"), given_labels=labels, checksums=None, name="run")
    with pytest.warns(DamagedRowsWarning, match="Left out the given labels of 'run': "):
        assert read_table(tmp_path).read_given_labels("run") is None
