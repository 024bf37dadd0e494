"""An example run as a script, in this process, which has loaded torch already."""

import logging
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def script(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Run an example with arguments, and return what it prints."""

    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr("sys.argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    talkative = logging.getLogger("lightning.pytorch")
    level = talkative.level
    yield run
    talkative.setLevel(level)
