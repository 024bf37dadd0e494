"""Optimizers that training must not meet; each is found out in a way of its own."""

import os
from typing import Any

from torch.optim import SGD

_COUNT = "COMPAT_STEPS"


def _steps() -> int:
    """One more step, counted where no walk through Python's objects looks."""
    os.environ[_COUNT] = str(int(os.environ.get(_COUNT, "0")) + 1)
    return int(os.environ[_COUNT])


class CountsElsewhere(SGD):
    """Its steps depend on how many there were before, those of probes included."""

    def step(self, closure: Any = None) -> Any:
        self.param_groups[0]["lr"] = 0.1 / _steps()
        return super().step(closure)


class FailsLater(SGD):
    """Survives plain training and the trial of ``rote.track``, but not a probe."""

    def step(self, closure: Any = None) -> Any:
        if _steps() > 3:
            raise ZeroDivisionError("a step too many")
        return super().step(closure)


class Hangs(SGD):
    """Never comes back."""

    def step(self, closure: Any = None) -> Any:
        while True:
            pass


class CannotBeBuilt(SGD):
    """Is missing something."""

    def __init__(self, params: Any) -> None:
        raise OSError("no such device")
