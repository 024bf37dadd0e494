"""The README's Python runs as it stands there, twice, and prints a verdict."""

import re
import time
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_readme_keeps_its_promises() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 120
    assert next(i for i, line in enumerate(lines, 1) if line.startswith("```python")) <= 35
    assert TEXT.index("pip install") < TEXT.index("```python")
    assert {"make demo", "make test"} <= {line.split("  ")[0].strip() for line in lines}


def test_the_python_in_the_readme_runs_twice_and_prints_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    (block,) = BLOCKS
    exec(compile(block, str(README), "exec"), {})
    (run,) = tmp_path.glob("runs/*")
    deadline = time.monotonic() + 10
    while time.strftime("%H%M%S") == run.name and time.monotonic() < deadline:
        pass  # a run is named after the second
    exec(compile(block, str(README), "exec"), {})
    assert len(list(tmp_path.glob("runs/*/journal.jsonl"))) == 2
    printed = capsys.readouterr().out
    (written,) = re.findall(r"```text\n(Keep .*?)```", TEXT, flags=re.DOTALL)
    assert printed.startswith("Keep step ")
    assert row_labels(written) <= row_labels(printed)


def row_labels(verdict: str) -> set[str]:
    """Return the first cell of each aligned line of a verdict, such as ``Label noise``."""
    return set(re.findall(r"^  (\w.*?)  ", verdict, flags=re.MULTILINE))
