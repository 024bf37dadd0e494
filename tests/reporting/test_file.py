from pathlib import Path

import pytest

from rote.errors import InputError
from rote.reporting.file import check_writable, write_file


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "page.html"
    write_file(path, b"old")
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_file(path, "not bytes")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="to be a file that can be written, got: File name too"):
        write_file(tmp_path / ("x" * 300), b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_and_a_folder_that_is_none_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got a directory. Name a file in it"):
        check_writable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="which is no folder that can be written to"):
        check_writable(tmp_path / "file" / "page.html")
    check_writable(tmp_path / "new" / "page.html")
    assert not (tmp_path / "new").exists()
