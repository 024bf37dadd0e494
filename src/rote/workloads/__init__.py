"""What is trained, on what, and how: architectures, data, objectives and the training loop."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rote.workloads.loop import train as train
    from rote.workloads.spec import RunSpec as RunSpec
    from rote.workloads.trained_run import TrainedRun as TrainedRun

_HOMES = {
    "RunSpec": "rote.workloads.spec",
    "TrainedRun": "rote.workloads.trained_run",
    "train": "rote.workloads.loop",
}

__all__ = ["RunSpec", "TrainedRun", "train"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a spec is read without torch
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rote.workloads' has no attribute {name!r}")
