"""The stopping examples run, and say what their docstrings promise."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rote.records import Reading
from rote.store import RunDirectory

pytestmark = pytest.mark.slow


def test_stopping_digits_stops_and_keeps_a_better_checkpoint_than_the_last(
    script: Callable[..., str],
) -> None:
    shown = script("stopping_digits.py")
    assert "Stop after epoch" in shown
    kept, last, best = (float(share) for share in re.findall(r": (\d+\.\d)%", shown))
    assert last < kept <= best


def test_stopping_pool_measures_regret(tmp_path: Path, script: Callable[..., str]) -> None:
    # ζ falls until step 6 and rises afterwards; test accuracy is best there.
    zetas = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.1, 0.2, 0.3]
    tests = [0.1, 0.2, 0.3, 0.4, 0.5, 0.9, 0.8, 0.7, 0.6]
    for name in ("a", "b"):
        directory = RunDirectory.create(tmp_path / name, {"name": name})
        for row, (zeta, test) in enumerate(zip(zetas, tests, strict=True)):
            metrics = {"train_accuracy": 0.55, "test_accuracy": test}
            reading = Reading(row + 1, 2.0, 2.0 - zeta, zeta, zeta, zeta, metrics=metrics,
                              validation_accuracy=test)  # fmt: skip
            directory.append(reading, row=row)
        directory.close()
        noise = {"data": {"noise": {"realized_rate": 0.45}}}
        (tmp_path / name / "workload.json").write_text(json.dumps(noise))
    rows = {
        line[:31].strip(): line[31:].split()
        for line in script("stopping_pool.py", tmp_path).splitlines()
    }
    assert rows["ζ, train_accuracy=0.5"] == ["0.0", "0.0", "9.0"]
    assert rows["ζ, train_accuracy=0.6"] == ["30.0", "30.0", "9.0"]
    assert rows["last"] == ["30.0", "30.0", "9.0"]
    assert rows["noisy validation (given labels)"] == ["0.0", "0.0", "9.0"]
    assert rows["noise_rate"] == ["80.0", "80.0", "5.0"]  # kept at 1, but never stops before 5
