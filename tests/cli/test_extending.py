"""What is added is one file each: that of docs/extending.md, used from the command line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rote.studies.figures
from rote.cli.main import app

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
SIGNAL, RULE, NETWORK = re.findall(
    r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
)
SPEC = """
epochs = 4
signals = ["my_signal:Confidence", "label_wave"]
architecture = { name = "my_network:tiny", options = { units = 12 } }
data = { name = "digits", train_size = 60, test_size = 20 }
"""
STUDY = """
from rote.studies import Study

STUDY = Study(
    name="answer",
    title="the answer",
    measure=lambda _: {"answer": 42},
    text=lambda record: f"It is {record['answer']}.",
    finding=lambda record: "As in the book.",
    wants=None,
)
"""


def test_a_study_is_a_file_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(app, ["study", "list"]).exit_code == 0  # folders are read once
    (tmp_path / "answer.py").write_text(STUDY)
    folders = [*rote.studies.figures.__path__, str(tmp_path)]
    monkeypatch.setattr(rote.studies.figures, "__path__", folders)
    monkeypatch.setattr(rote.studies.figures.__spec__, "submodule_search_locations", folders)
    monkeypatch.delitem(sys.modules, "rote.studies.figures.answer", raising=False)
    listed = CliRunner().invoke(app, ["study", "list", "--plain"]).stdout
    assert "answer the answer" in listed.splitlines()
    asked = ["study", "run", "answer", "--store", str(tmp_path / "runs"), "--json"]
    told = json.loads(CliRunner().invoke(app, asked, catch_exceptions=False).stdout)
    assert "42" in json.dumps(told)


def test_user_extensions_are_used_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_signal.py").write_text(SIGNAL)
    (tmp_path / "my_network.py").write_text(NETWORK)
    (tmp_path / "my_rule.py").write_text(RULE)
    (tmp_path / "spec.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def run(*command: str) -> str:
        return CliRunner().invoke(app, command, catch_exceptions=False).stdout

    train = [sys.executable, "-m", "rote", "train", "spec.toml", "--out", "runs/a", "--quiet"]
    done = subprocess.run(train, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    journal = (tmp_path / "runs/a/journal.jsonl").read_text()
    lines = [json.loads(line) for line in journal.splitlines()]
    confidence = [line["confidence"] for line in lines]
    assert all(0.1 <= value <= 1 for value in confidence)
    found = json.loads(run("select", "runs", "--rule", "max:confidence", "--json"))
    assert found["pick"]["step"] == lines[confidence.index(max(confidence))]["step"]
    found = json.loads(run("select", "runs", "--rule", "my_rule:Sure", "--json"))
    first = next(i for i, value in enumerate(confidence) if value >= 0.9 * max(confidence))
    assert found["pick"]["step"] == lines[first]["step"]
    told = run("select", "runs", "--rule", "max:confidence", "--explain")
    assert "mean confidence in training" in " ".join(told.split())
    found = json.loads(run("select", "runs", "--rule", "min:label_wave", "--json"))
    assert found["pick"]["step"] == 4  # the first and only one that is known


def test_user_extensions_are_found_beside_the_spec_and_in_the_working_directory(
    tmp_path: Path,
) -> None:
    (tmp_path / "my_signal.py").write_text(SIGNAL)
    (tmp_path / "my_network.py").write_text(NETWORK)
    (tmp_path / "my_rule.py").write_text(RULE)
    (tmp_path / "spec.toml").write_text(SPEC.replace("epochs = 4", "epochs = 2"))
    # The installed command, unlike `python -m`, does not look where it is called.
    rote_command = Path(sys.executable).with_name("rote")

    def run(*command: str, at: Path) -> None:
        words = [rote_command, *command]
        done = subprocess.run(words, cwd=at, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    run("train", f"{tmp_path.name}/spec.toml", "--out", str(tmp_path / "a"), at=tmp_path.parent)
    run("select", "a", "--rule", "my_rule:Sure", at=tmp_path)
