"""Files that people name: whole, where they said, and nothing else."""

import os
from pathlib import Path

import pytest

from rote.errors import InputError
from rote.reporting.output_file import check_writable, write_file

pytestmark = pytest.mark.xdist_group("figures")


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "target.html")
    write_file(tmp_path / "link.html", b"page")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "target.html").read_bytes() == b"page"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "target.html"]


def test_device_or_folder_as_output_is_refused_and_unchanged(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="it is a device"):
        check_writable(tmp_path / "pipe")
    with pytest.raises(InputError, match="it is a device"):
        write_file(tmp_path / "pipe", b"page")
    assert (tmp_path / "pipe").is_fifo()
