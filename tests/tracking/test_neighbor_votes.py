"""Votes of neighbors that a run is given are kept beside it, whole or not at all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rote
from rote.errors import DamagedRowsWarning, InputError
from rote.store import NEIGHBORS_FILE, read_table
from tests.cases import CLASSES
from tests.tracking.logged_run import HOLDOUT, LABELS, Run

VOTES = rote.neighbor_votes(HOLDOUT.flip(0), LABELS, HOLDOUT, num_classes=CLASSES)


def test_rows_are_written_once_and_read_back(tmp_path: Path) -> None:
    run = Run([tmp_path / "a", lambda _: None], neighbor_votes=VOTES, given_labels=LABELS)
    run.epochs(1, 2)
    run.tracker.close()
    table = read_table(tmp_path)
    found = table.read_neighbor_votes("a")
    assert found.dtype == np.float32
    assert (found == VOTES).all()
    assert (table.read_given_labels("a") == LABELS.numpy()).all()
    assert (np.load(tmp_path / "a" / NEIGHBORS_FILE, allow_pickle=False) == VOTES).all()
    assert table.read_neighbor_votes("another") is None


def test_votes_are_optional_and_kept_by_a_resumed_run(tmp_path: Path) -> None:
    Run(tmp_path / "a").tracker.close()
    assert read_table(tmp_path).read_neighbor_votes("a") is None
    # As after a power cut between run.json and the votes.
    Run(tmp_path / "a", resume=True, neighbor_votes=torch.from_numpy(VOTES)).tracker.close()
    assert (read_table(tmp_path).read_neighbor_votes("a") == VOTES).all()
    Run(tmp_path / "a", resume=True, neighbor_votes=VOTES[::-1].copy()).tracker.close()
    Run(tmp_path / "a", resume=True).tracker.close()
    assert (read_table(tmp_path).read_neighbor_votes("a") == VOTES).all()


def test_failed_write_leaves_no_partial_file_and_the_run_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = Path.replace

    def full(path: Path, target: Path) -> Path:
        if Path(target).name == NEIGHBORS_FILE:
            raise OSError(28, "No space left on device")
        return replaced(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            Run(tmp_path / "a", neighbor_votes=VOTES)
    assert sorted(file.name for file in (tmp_path / "a").iterdir()) == [
        "journal.jsonl", "predictions.bin", "run.json", "writer.lock",
    ]  # fmt: skip
    Run(tmp_path / "a", resume=True, neighbor_votes=VOTES).tracker.close()
    assert (read_table(tmp_path).read_neighbor_votes("a") == VOTES).all()


def damage(kind: str) -> Any:
    votes = VOTES.copy()
    if kind == "nan":
        votes[0, 0] = np.nan
    elif kind == "sum":
        votes[0] /= 2
    elif kind == "negative":
        votes[0, :2] += (-2, 2)
    shapes = {"rows": votes[1:], "classes": votes[:, 1:], "type": VOTES.astype(int)}
    return shapes.get(kind, votes)


@pytest.mark.parametrize("kind", ["nan", "sum", "negative", "rows", "classes", "type"])
def test_impossible_votes_are_refused_and_left_out(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match="`neighbor_votes` to be those of fixed `inputs`"):
        Run(tmp_path / "a", neighbor_votes=damage(kind))
    assert not (tmp_path / "a").exists()
    Run(tmp_path / "a").tracker.close()
    np.save(tmp_path / "a" / NEIGHBORS_FILE, damage(kind))
    with pytest.warns(DamagedRowsWarning, match=r"Left out the nearest-neighbor votes in .*got"):
        assert read_table(tmp_path).read_neighbor_votes("a") is None


@pytest.mark.parametrize("cut", [0, 5, 40, 128, -1])
def test_a_file_that_was_cut_off_is_left_out(tmp_path: Path, cut: int) -> None:
    Run(tmp_path / "a", neighbor_votes=VOTES).tracker.close()
    file = tmp_path / "a" / NEIGHBORS_FILE
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.warns(DamagedRowsWarning, match=rf"votes in .*{NEIGHBORS_FILE}"):
        assert read_table(tmp_path).read_neighbor_votes("a") is None


def test_header_with_a_wrong_size_is_skipped(tmp_path: Path) -> None:
    Run(tmp_path / "a", neighbor_votes=VOTES).tracker.close()
    file = tmp_path / "a" / NEIGHBORS_FILE
    whole = file.read_bytes()
    lying = whole.replace(b"(20, ", b"(20" + b"0" * 12 + b", ").replace(b" " * 12, b"", 1)
    assert lying != whole
    file.write_bytes(lying)
    with pytest.warns(DamagedRowsWarning, match=rf"votes in .*{NEIGHBORS_FILE}"):
        assert read_table(tmp_path).read_neighbor_votes("a") is None


def test_votes_need_fixed_inputs() -> None:
    with pytest.raises(InputError, match="those of fixed `inputs`"):
        Run(
            None,
            rote.ProbePolicy(batch=8, resample=True),
            inputs=lambda: HOLDOUT,
            neighbor_votes=VOTES,
        )
