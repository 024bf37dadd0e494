"""The README's Python runs as it stands there, twice, and prints a verdict."""

import json
import os
import re
import shutil
import subprocess
import sys
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


def write_script(folder: Path) -> Path:
    """The first Python block of README, as printed."""
    script = folder / "script.py"
    script.write_text(BLOCKS[0], encoding="utf-8")
    return script


def test_the_script_is_typed_strictly_for_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="checks types")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull]
    command += ["--cache-dir", str(README.parent / ".mypy_cache"), str(write_script(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_is_typed_strictly_for_pyright(tmp_path: Path) -> None:
    """All that is rote's is known; `Optimizer.step` of torch itself is partially unknown."""
    pyright = pytest.importorskip("pyright", reason="needs pyright: pip install pyright")
    program = Path(pyright.__file__).parent / "dist" / "index.js"
    node = shutil.which("node")
    if node is None or not program.is_file():
        pytest.skip("needs node, and a pyright that brings its program")
    config = {
        "typeCheckingMode": "strict",
        "include": [write_script(tmp_path).name],
        "extraPaths": sys.path[1:],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    command = [node, str(program), "--outputjson", "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert [entry["message"].split('"')[1] for entry in found] in ([], ["step"])
