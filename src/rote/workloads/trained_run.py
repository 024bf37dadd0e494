"""What is left when a run is over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from rote.records import Reading
from rote.workloads.spec import RunSpec


@dataclass(frozen=True)
class TrainedRun:
    """A run that is over.

    Attributes:
        spec: what was run.
        description: identity, spec and data (noise with its realised rate), as JSON can hold them.
        readings: one per measured epoch.
        path: its directory, if it was saved.
        model: the network after the last epoch; None if the run was over before.
    """

    spec: RunSpec
    description: Mapping[str, Any]
    readings: tuple[Reading, ...]
    path: Path | None = None
    model: nn.Module | None = field(default=None, repr=False, compare=False)
