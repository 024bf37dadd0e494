"""An optimizer named on the command line."""

from typing import TYPE_CHECKING, cast

from rote.errors import InputError, quote
from rote.extras import import_named

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


def build_optimizer(name: str, model: "nn.Module", *, lr: float | None = None) -> "Optimizer":
    """Build the optimizer of a model.

    Raises:
        InputError: if there is no such optimizer, or it does not accept these parameters.
    """
    import torch

    build = import_named(name, "--optimizer") if ":" in name else getattr(torch.optim, name, None)
    if not callable(build):
        raise InputError(
            f"Expected `--optimizer` to be a class of torch.optim or package.module:factory, "
            f"got {quote(name)}."
        )
    try:
        options = {} if lr is None else {"lr": lr}
        return cast("Optimizer", build(model.parameters(), **options))
    except Exception as error:  # a user's factory may raise anything
        raise InputError(
            f"{name} cannot be built from this model's parameters: {type(error).__name__}: {error}."
        ) from error
