"""The command in this process, for all that needs none of its own: torch is loaded already."""

import sys
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


@pytest.fixture
def rote(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Rote:
    monkeypatch.chdir(tmp_path)
    return Rote(capsys, monkeypatch)
