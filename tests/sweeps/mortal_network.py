"""A network in the middle of whose training the process is killed, once."""

import os
import signal
from pathlib import Path

import torch
from torch import nn

_CALLS = 100  # of forward before the blow: some epochs of a small run


class MortalNetwork(nn.Module):
    """A linear network that kills its own process if nobody has done so before.

    Args:
        num_classes: how many outputs.
        image_size: height and width of the input.
        grave: where the number of the process is written, just before.
    """

    def __init__(self, num_classes: int, image_size: int, grave: str) -> None:
        super().__init__()
        self.linear = nn.Linear(image_size**2, num_classes)
        self._grave = Path(grave)
        self._calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._calls += 1
        if self._calls > _CALLS and not self._grave.exists():
            self._grave.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        logits: torch.Tensor = self.linear(x.flatten(1))
        return logits
