"""Where runs can be read from: one file each, all yielding the same."""

from collections.abc import Callable, Mapping

from rote.store.address import Address
from rote.store.sources.csv_source import read_csv
from rote.store.sources.directories import read_directories, unique_names
from rote.store.sources.mlflow_source import read_mlflow
from rote.store.sources.runs import FoundRun, SourceRuns
from rote.store.sources.tensorboard_source import read_tensorboard
from rote.store.sources.wandb_source import read_wandb_offline

SOURCES: dict[str, Callable[[Address, Mapping[str, str]], SourceRuns]] = {
    "mlflow": read_mlflow,
    "tensorboard": read_tensorboard,
    "csv": read_csv,
    "wandb-offline": read_wandb_offline,
}
"""How to read each kind of address: called with it and with the mapping of names."""

__all__ = ["SOURCES", "FoundRun", "SourceRuns", "read_directories", "unique_names"]
