"""Which of several optimizers trains the network that is probed."""

from collections.abc import Sequence

from torch import nn
from torch.optim import Optimizer

from rote.errors import InputError
from rote.snapshot import parameters_of


def choose_optimizer(
    optimizers: Sequence[Optimizer],
    choice: int | str | None,
    *,
    model: nn.Module,
    owner: nn.Module,
) -> Optimizer:
    """The optimizer that is meant.

    Args:
        optimizers: all there are.
        choice: an index; the name of a class; the name of a submodule of ``owner`` whose parameters
            the optimizer holds; or ``None`` for the only one that holds parameters of ``model``.
        model: the network that is probed.
        owner: the module that named submodules belong to.

    Raises:
        InputError: if none is meant, or more than one.
    """
    if isinstance(choice, int):
        is_one = -len(optimizers) <= choice < len(optimizers)
        found = [optimizers[choice]] if is_one else []
    elif choice is None:
        found = _training(optimizers, model)
    else:
        found = [optimizer for optimizer in optimizers if type(optimizer).__name__ == choice]
        part = dict(owner.named_modules()).get(choice)
        if not found and part is not None:
            found = _training(optimizers, part)
    if len(found) == 1:
        return found[0]
    kinds = ", ".join(f"{i}: {type(entry).__name__}" for i, entry in enumerate(optimizers))
    raise InputError(
        f"Expected `optimizer` to choose one of the optimizers ({kinds or 'none'}), got "
        f"{choice!r}, which fits {len(found)} of them. Pass an index, the name of a class, or the "
        "name of the submodule that it trains."
    )


def _training(optimizers: Sequence[Optimizer], model: nn.Module) -> list[Optimizer]:
    own = {id(parameter) for parameter in model.parameters()}
    return [
        optimizer
        for optimizer in optimizers
        if any(id(parameter) in own for parameter in parameters_of(optimizer))
    ]
