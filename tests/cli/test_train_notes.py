"""`rote train` says what happened, at the step at which it happened, unless it is to be quiet."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.interpretation import find_notes
from rote.store import read_run

pytestmark = pytest.mark.slow

SPEC = """
epochs = 30
batch = 16
data = { name = "digits", train_size = 60, test_size = 20 }
noise = { model = "symmetric-inclusive", rate = 0.5 }
architecture = { name = "mlp", options = { width = 256, depth = 1 } }
optimizer = { name = "adam", lr = 0.01, weight_decay = 0 }
schedule = "none"
"""


def test_train_prints_the_notes_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    said = {}
    for name, options in {"loud": [], "quiet": ["--quiet"]}.items():
        out = ["--out", str(tmp_path / name)]
        done = CliRunner().invoke(app, ["train", str(tmp_path / "spec.toml"), *out, *options])
        assert done.exit_code == 0, done.output
        said[name] = " ".join(done.output.split())
    workload = json.loads((tmp_path / "loud" / "workload.json").read_text())
    rate = workload["data"]["noise"]["realized_rate"]  # known, because the spec makes the noise
    notes = find_notes(read_run(tmp_path / "loud").readings, rate)
    assert any("label errors are memorized" in note for note in notes.values())
    for step, note in notes.items():
        assert f"step {step}: " in said["loud"]
        assert note in said["loud"]
        assert note not in said["quiet"]
    assert "has passed the share of correct labels" in said["loud"]
