"""What is trained, on what, and how: architectures, data, objectives and the training loop."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rote.workloads.architectures import build_architecture as build_architecture
    from rote.workloads.checkpoints import CHECKPOINT_FOLDER as CHECKPOINT_FOLDER
    from rote.workloads.checkpoints import load_checkpoint as load_checkpoint
    from rote.workloads.data import check_file as check_file
    from rote.workloads.data import list_datasets as list_datasets
    from rote.workloads.data import load_arrays as load_arrays
    from rote.workloads.data.splits import prepare as prepare
    from rote.workloads.loop import TrainedRun as TrainedRun
    from rote.workloads.loop import train as train
    from rote.workloads.run_folder import LABELS_FILE as LABELS_FILE
    from rote.workloads.spec import AllowedImports as AllowedImports
    from rote.workloads.spec import BestCheckpoints as BestCheckpoints
    from rote.workloads.spec import FieldError as FieldError
    from rote.workloads.spec import RunSpec as RunSpec
    from rote.workloads.spec import located as located
    from rote.workloads.spec import read_toml as read_toml

_NAMES = {
    "architectures": ["build_architecture"],
    "checkpoints": ["CHECKPOINT_FOLDER", "load_checkpoint"],
    "data": ["check_file", "list_datasets", "load_arrays"],
    "data.splits": ["prepare"],
    "loop": ["TrainedRun", "train"],
    "run_folder": ["LABELS_FILE"],
    "spec": ["AllowedImports", "BestCheckpoints", "FieldError", "RunSpec", "located", "read_toml"],
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a spec is read without torch
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rote.workloads' has no attribute {name!r}")
