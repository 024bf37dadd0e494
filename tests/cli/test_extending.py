"""A signal and a rule are one file each: those of docs/extending.md, used from the command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
SIGNAL, RULE = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SPEC = """
epochs = 4
signals = ["my_signal:Confidence", "label_wave"]
architecture = "mlp"
data = { name = "digits", train_size = 60, test_size = 20 }
"""


def test_a_signal_and_a_rule_of_ones_own_are_used_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "my_signal.py").write_text(SIGNAL)
    (tmp_path / "my_rule.py").write_text(RULE)
    (tmp_path / "spec.toml").write_text(SPEC)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rote", *command],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("train", "spec.toml", "--out", "runs/a", "--quiet")
    journal = (tmp_path / "runs/a/journal.jsonl").read_text()
    lines = [json.loads(line) for line in journal.splitlines()]
    confidence = [line["confidence"] for line in lines]
    assert all(0.1 <= value <= 1 for value in confidence)
    found = json.loads(run("select", "runs", "--rule", "max:confidence", "--json"))
    assert found["pick"]["step"] == lines[confidence.index(max(confidence))]["step"]
    found = json.loads(run("select", "runs", "--rule", "my_rule:Sure", "--json"))
    first = next(i for i, value in enumerate(confidence) if value >= 0.9 * max(confidence))
    assert found["pick"]["step"] == lines[first]["step"]
    assert "mean confidence in training" in run("select", "runs", "--rule", "max:confidence")
    found = json.loads(run("select", "runs", "--rule", "min:label_wave", "--json"))
    assert found["pick"]["step"] == 4  # the first and only one that is known
