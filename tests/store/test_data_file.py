"""Whether data have changed is told by their contents, not by their times."""

import json
import os
from pathlib import Path

import pytest

from rote.errors import InputError
from rote.store import check_data_unchanged, fingerprint_file, has_changed, read_data_file


def test_a_file_changes_by_its_contents_and_not_by_its_time(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("label\n1\n")
    recorded = fingerprint_file(file).to_dict()
    assert not has_changed(recorded)
    os.utime(file, (1, 1))
    assert not has_changed(recorded)
    file.write_text("label\n2\n")
    assert has_changed(recorded)
    file.unlink()
    assert not has_changed(recorded)  # nothing is known to have changed


def test_a_folder_changes_with_a_name_a_file_or_a_byte(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    (folder / "cat").mkdir(parents=True)
    (folder / "cat" / "1.png").write_bytes(b"one")
    recorded = fingerprint_file(folder).to_dict()
    (folder / "cat" / "1.png").write_bytes(b"two")
    assert has_changed(recorded)
    (folder / "cat" / "1.png").write_bytes(b"one")
    assert not has_changed(recorded)
    (folder / "cat" / "1.png").rename(folder / "cat" / "2.png")
    assert has_changed(recorded)


def test_a_copy_elsewhere_is_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("same")
    second.write_text("same")
    assert not has_changed(fingerprint_file(first).to_dict(), second)


def test_runs_on_changed_data_are_refused(tmp_path: Path) -> None:
    data, run = tmp_path / "a.csv", tmp_path / "run"
    data.write_text("label\n1\n")
    run.mkdir()
    check_data_unchanged([run])  # without a fingerprint nothing is known
    recorded = fingerprint_file(data).to_dict()
    (run / "workload.json").write_text(json.dumps({"data_file": recorded}))
    assert read_data_file(run) == recorded
    check_data_unchanged([run])
    data.write_text("label\n2\n")
    with pytest.raises(InputError, match=r"a\.csv has changed since .*run"):
        check_data_unchanged([run])
