"""A network whose process finds the disk full when it writes a certain file."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

_OPEN = Path.open


class FullDisk(nn.Module):
    """A linear network; while the note is there, the file that it names is written to a full disk.

    Args:
        num_classes: how many outputs.
        image_size: height and width of the input.
        note: a file with the name of another.
    """

    def __init__(self, num_classes: int, image_size: int, note: str) -> None:
        super().__init__()
        self.linear = nn.Linear(image_size**2, num_classes)

        def opened(path: Path, *args: Any, **kwargs: Any) -> Any:
            is_full = path.suffix == ".draft" and Path(note).exists()
            if is_full and path.name == _OPEN(Path(note)).read():
                return _OPEN(Path("/dev/full"), "wb")
            return _OPEN(path, *args, **kwargs)

        Path.open = opened  # type: ignore  # in the process of a worker

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.linear(x.flatten(1))
        return logits


def network(note: Path) -> dict[str, Any]:
    """The network as a spec names it."""
    return {"name": "tests.sweeps.full_disk:FullDisk", "options": {"note": str(note)}}
