"""A file is there whole or not at all."""

import os
from pathlib import Path

import pytest

from rote.store.files import replace_file, write_whole
from rote.store.run_directory import DRAFT_FILE, FAILURE_DRAFT, FAILURE_FILE
from rote.store.run_record import RUN_FILE


def test_a_file_is_written_and_overwritten(tmp_path: Path) -> None:
    for content in (b"first\n", bytes(range(256))):
        write_whole(tmp_path / "some.json", content)
        assert (tmp_path / "some.json").read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["some.json"]


def test_on_a_full_disk_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "some.json", b"old")
    usual = Path.open
    monkeypatch.setattr(Path, "open", lambda _path, mode: usual(Path("/dev/full"), mode))
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "some.json", b"new")
    monkeypatch.undo()
    assert (tmp_path / "some.json").read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["some.json"]


def test_draft_does_not_follow_a_planted_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "some.draft").symlink_to(victim)
    write_whole(tmp_path / "some.json", b"new")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "some.json").read_bytes() == b"new"
    assert not (tmp_path / "some.json").is_symlink()


@pytest.mark.parametrize(("file", "draft"), [(RUN_FILE, DRAFT_FILE), (FAILURE_FILE, FAILURE_DRAFT)])
def test_drafts_have_the_names_that_a_new_run_ignores(
    file: str, draft: str, tmp_path: Path
) -> None:
    (tmp_path / draft).mkdir()
    with pytest.raises(IsADirectoryError, match=draft):
        write_whole(tmp_path / file, b"")


@pytest.mark.parametrize("shared", [False, True])
def test_an_exception_while_writing_keeps_the_old_file_and_removes_the_draft(
    tmp_path: Path, shared: bool
) -> None:
    write_whole(tmp_path / "some.npz", b"old")

    def write_half() -> None:
        with replace_file(tmp_path / "some.npz", shared=shared) as draft:
            draft.write_bytes(b"half")
            assert draft.name.endswith(".draft")
            assert (str(os.getpid()) in draft.name) == shared
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert [file.name for file in tmp_path.iterdir()] == ["some.npz"]
    assert (tmp_path / "some.npz").read_bytes() == b"old"
