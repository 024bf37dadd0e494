"""The line of docs/lightning.md for LightningCLI, with the real parser."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning", reason="needs the extra `lightning`")
pytest.importorskip("jsonargparse", reason="LightningCLI needs jsonargparse")

from lightning.pytorch import LightningDataModule
from lightning.pytorch.cli import LightningCLI

from rote.integrations.lightning import SusceptibilityCallback
from rote.store import read_run
from tests.integrations.lightning_runs import QUIET, Classifier, loader

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("lightning"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]

PAGE = Path(__file__).parents[2] / "docs" / "lightning.md"
LINE = "--trainer.callbacks+=rote.integrations.lightning.SusceptibilityCallback"


class Plain(Classifier):
    def __init__(self) -> None:
        super().__init__()


class Data(LightningDataModule):
    def train_dataloader(self) -> Any:
        return loader()


def test_the_callback_is_named_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LINE in PAGE.read_text()
    options = {
        "num_classes": 3,
        "measure_accuracy": 0,
        "save_to": tmp_path / "run",
        "stop": "rote.StopRule",
        "stop.train_accuracy": 0.1,
        "stop.min_epochs": 1,
    }
    named = [f"--trainer.callbacks.{name}={value}" for name, value in options.items()]
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # lightning 2.6 on 4.53
    monkeypatch.setattr("sys.argv", ["train.py", "fit", "--trainer.max_epochs=2", LINE, *named])
    quiet = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": str(tmp_path),
    }
    cli = LightningCLI(
        Plain, Data, save_config_callback=None, trainer_defaults=quiet, seed_everything_default=0
    )
    callback = next(
        entry for entry in cli.trainer.callbacks if isinstance(entry, SusceptibilityCallback)
    )
    assert [reading.step for reading in callback.tracker.readings] == [1, 2]
    assert callback.keep in (1, 2)
    assert len(read_run(tmp_path / "run").readings) == 2
