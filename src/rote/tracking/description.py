"""What is known about a run before it starts, for ``run.json``."""

import math
import platform
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from rote.version import __version__


def describe_environment() -> dict[str, Any]:
    """When, by which command, with which versions."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "versions": {
            "rote": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
    }


def describe_model(model: nn.Module) -> dict[str, Any]:
    """The class of a model and its number of parameters."""
    count = sum(parameter.numel() for parameter in model.parameters())
    return {"class": _full_name(model), "parameters": count}


def describe_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """The class of an optimizer and its settings."""
    defaults = getattr(optimizer, "defaults", {})
    settings = {name: _plain(value) for name, value in defaults.items()}
    return {"class": _full_name(optimizer), "settings": settings}


def _full_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if type(value) is float and math.isfinite(value) else repr(value)
