"""README's Python runs in a loop; the script that it leads to runs twice. Both print a verdict."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.slow

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")
LOOPS = (README.parent / "docs" / "loops.md").read_text(encoding="utf-8")
TUTORIAL = (README.parent / "docs" / "tutorials" / "images.md").read_text(encoding="utf-8")


def blocks(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


(LINES,) = blocks(TEXT)
(SCRIPT,) = (block for block in blocks(LOOPS) if "rote.neighbor_votes(" in block)
(VERDICT,) = blocks(TEXT, "text")


def test_the_readme_is_short_and_starts_with_code() -> None:
    lines = TEXT.splitlines()
    assert len(lines) <= 120
    order = ["![", "```python", "```text", "leaderboard-medium.md", "## Install", "pip install",
             "## In the trainer you have", "## What it does not do"]  # fmt: skip
    assert [TEXT.index(part) for part in order] == sorted(TEXT.index(part) for part in order)
    assert next(i for i, line in enumerate(lines, 1) if line.startswith("```python")) <= 35
    assert {"make demo", "make test"} <= {line.split("  ")[0].strip() for line in lines}
    assert "docs/loops.md#a-verdict-from-a-single-run" in TEXT
    assert "## A verdict from a single run" in LOOPS


def test_the_verdict_in_the_readme_is_that_of_the_tutorial() -> None:
    assert VERDICT in blocks(TUTORIAL, "text")
    wrong = re.search(r"(\d+)% of the labels are wrong", TUTORIAL)
    assert wrong is not None
    assert f"{wrong[1]} % wrong labels" in TEXT


def train_one_epoch(x: torch.Tensor, y: torch.Tensor, saved: list[int]) -> Any:
    def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for batch in torch.randperm(len(x)).split(50):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        saved.append(len(saved) + 1)
        torch.save(model.state_dict(), f"runs/a/step-{saved[-1]}.pt")

    return train


def test_the_lines_of_the_readme_run_in_a_loop_and_name_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    truth = torch.randint(10, (1000,))
    samples = torch.randn(10, 64)[truth] + torch.randn(1000, 64)
    labels = torch.where(torch.rand(1000) < 0.4, torch.randint(10, (1000,)), truth)
    holdout, x, y = samples[:300], samples[300:], labels[300:]
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    saved: list[int] = []
    names = {"x": x, "y": y, "holdout": holdout, "holdout_labels": labels[:300], "model": model}
    names["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    names["train_one_epoch"] = train_one_epoch(x, y, saved)
    exec(compile(LINES, str(README), "exec"), names)
    assert saved == list(range(1, 16))
    printed = capsys.readouterr().out
    kept = re.match(r"Keep step (\d+) of a\nruns/a/step-(\d+)\.pt\n", printed)
    assert kept is not None
    assert kept[1] == kept[2]
    assert row_labels(VERDICT) - {"Test accuracy"} <= row_labels(printed)


def test_the_site_begins_with_the_same_lines() -> None:
    home = (README.parent / "docs" / "README.md").read_text(encoding="utf-8")
    assert blocks(home) == [LINES]


def test_at_most_five_lines_are_added_to_a_loop() -> None:
    added = [line for line in LINES.splitlines() if re.search(r"\brote\b|tracker\.", line)]
    assert len(added) == 5


def test_the_script_runs_twice_and_prints_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    exec(compile(SCRIPT, "loops.md", "exec"), {})
    (run,) = tmp_path.glob("runs/*")
    deadline = time.monotonic() + 10
    while time.strftime("%H%M%S") == run.name and time.monotonic() < deadline:
        pass  # a run is named after the second
    exec(compile(SCRIPT, "loops.md", "exec"), {})
    assert len(list(tmp_path.glob("runs/*/journal.jsonl"))) == 2
    assert capsys.readouterr().out.startswith("Keep step ")


def row_labels(verdict: str) -> set[str]:
    """Return the first cell of each aligned line of a verdict, such as ``Label noise``."""
    return set(re.findall(r"^  (\w.*?)  ", verdict, flags=re.MULTILINE))


def write_script(folder: Path) -> Path:
    """The script that README leads to, as printed."""
    script = folder / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    return script


def test_the_script_is_typed_strictly_for_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="checks types")
    # The project's own settings, strict, so that both use one cache.
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml"]
    command += [str(write_script(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=README.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_is_typed_strictly_for_pyright(tmp_path: Path) -> None:
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
    assert [entry["message"] for entry in found] == []
