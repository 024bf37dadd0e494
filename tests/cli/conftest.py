"""The command in this process, for all that needs none of its own: torch is loaded already."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rote.cli.main import main


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    code: object
    out: str
    err: str


@dataclass(frozen=True)
class Rote:
    """The command."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: object) -> Said:
        self.monkeypatch.setattr(sys, "argv", ["rote", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self.capsys.readouterr()
        return Said(ended.value.code, out, err)

    def refuses(self, *arguments: object) -> str:
        """The one line that it says."""
        said = self(*arguments)
        assert said.code in (1, 2), said.out
        lines = [line for line in said.err.splitlines() if line]
        assert len(lines) == 1, said.err
        assert lines[0].startswith("Error: ")
        assert len(lines[0]) < 1000
        return lines[0]


_THEN = "and-then"
_ONE_BY_ONE = f"""
import sys
from rote.cli.main import main

words = sys.argv[1:]
while words:
    end = words.index({_THEN!r})
    sys.argv, words = ["rote", *words[:end]], words[end + 1 :]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    print({_THEN!r}, flush=True)
"""


def in_one_process(
    *commands: Sequence[str | bytes], folder: Path, **variables: str
) -> tuple[list[bytes], bytes]:
    """What each of several commands prints, and all errors, in one new process for all of them.

    For what a process is told when it starts; torch is loaded once, and not by every command.
    """
    words = [word for command in commands for word in (*command, _THEN)]
    done = subprocess.run(
        [sys.executable, "-c", _ONE_BY_ONE, *words],
        capture_output=True,
        check=False,
        cwd=folder,
        env=os.environ | variables,
    )
    assert done.returncode == 0, done.stderr.decode()
    printed = done.stdout.split(f"{_THEN}\n".encode())
    assert len(printed) == len(commands) + 1
    return printed[:-1], done.stderr


@pytest.fixture
def rote(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Rote:
    monkeypatch.chdir(tmp_path)
    return Rote(capsys, monkeypatch)
