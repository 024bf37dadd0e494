"""The examples with loggers run, and what they log can be selected from the command line."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rote.store import read_table
from tests.examples.conftest import EXAMPLES
from tests.loggers import new_mlflow_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loggers")]


@pytest.mark.full
def test_mlflow_holds_the_loss_and_zeta(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    new_mlflow_store(tmp_path)
    # A process of its own: what MLflow is told holds for the rest of one.
    command = [sys.executable, EXAMPLES / "mlflow_digits.py", tmp_path / "mlflow.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    table = read_table(f"mlflow:noisy digits@{tmp_path / 'mlflow.db'}")
    assert list(table.descriptions) == ["lr 0.02", "lr 0.1", "lr 0.5"]
    assert len(table.frame) == 3 * 8
    assert table.frame.select("loss", "susceptibility", "train_accuracy").null_count().row(0) == (
        (0,) * 3
    )
    assert "Keep epoch" in done.stdout


def test_tensorboard_holds_zeta(tmp_path: Path, script: Callable[..., str]) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    output = script("tensorboard_digits.py", tmp_path)
    table = read_table(f"tensorboard:{tmp_path}")
    assert list(table.descriptions) == ["width 16", "width 256", "width 64"]
    assert len(table.frame) == 3 * 8
    loss = table.frame["loss"]
    assert loss[0] > loss[7]
    assert "Keep epoch" in output
