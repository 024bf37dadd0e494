"""Who may be probed: a model with trainable parameters, and the optimizer that trains them."""

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from rote.errors import InputError
from rote.probe.parallelism import check_parallelism
from rote.snapshot import parameters_of, sharded_parameters


def check_model_and_optimizer(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse a pair that cannot be probed.

    Args:
        model: the network in training.
        optimizer: the optimizer that trains it.

    Raises:
        InputError: saying what does not fit.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected `model` to be a torch.nn.Module, got {type(model).__name__}.")
    if not all(hasattr(optimizer, name) for name in ("param_groups", "state", "step")):
        raise InputError(
            "Expected `optimizer` to be a torch optimizer (param_groups, state, step), "
            f"got {type(optimizer).__name__}."
        )
    check_parallelism(model, optimizer)
    parameters = [*model.parameters(), *sharded_parameters(model)]
    if any(is_lazy(parameter) for parameter in parameters):
        raise InputError(
            "Expected `model` to be initialised, got lazy layers without weights. "
            "Run one forward pass first."
        )
    if not any(parameter.requires_grad for parameter in parameters):
        raise InputError(
            "Expected `model` to have a parameter that requires gradients, "
            f"got {len(parameters)} parameters, all frozen."
        )
    own = {id(parameter): parameter for parameter in parameters}
    held = [own[id(p)] for p in parameters_of(optimizer) if id(p) in own]
    if not held:
        raise InputError(
            "Expected `optimizer` to hold parameters of `model`, got none of them. "
            "Build the optimizer from this model's parameters, after moving it to its device."
        )
    if not any(parameter.requires_grad for parameter in held):
        raise InputError(
            "Expected `optimizer` to hold a parameter of `model` that requires gradients, "
            f"got {len(held)}, all frozen."
        )


def bare_optimizer(optimizer: Optimizer) -> Optimizer:
    """The torch optimizer inside the wrapper of Accelerate, or the optimizer itself.

    The wrapper steps only where gradients are synchronised; the probe must always step.
    """
    is_wrapper = any(kind.__module__ == "accelerate.optimizer" for kind in type(optimizer).__mro__)
    inner = getattr(optimizer, "optimizer", None)
    return inner if is_wrapper and isinstance(inner, Optimizer) else optimizer
