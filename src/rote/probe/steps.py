"""The throw-away step: the training optimizer's own, a fresh one's, or a plain one."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rote.errors import InputError
from rote.probe.policy import PlainStep, StepRule
from rote.snapshot import ObjectState, restored


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """Every tensor that the optimizer steps, each once."""
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return list({id(parameter): parameter for parameter in listed}.values())


def take_step(rule: StepRule, optimizer: Optimizer, closure: Callable[[], Tensor]) -> None:
    """Step the parameters along their gradients; only parameters and gradients change.

    Args:
        rule: which step.
        optimizer: the training optimizer. Its state is put back as soon as the step is done, and
            its hooks stay silent, since they may do anything (average weights, log, clip).
        closure: re-evaluates loss and gradients, for optimizers that cannot step without (LBFGS).
    """
    if isinstance(rule, PlainStep):
        _plain_step(optimizer, rule.lr)
    elif rule == "fresh":
        _call_step(_newly_built(optimizer), closure)
    else:
        with restored(ObjectState(optimizer, without=parameters_of(optimizer))):
            _silence_hooks(optimizer)
            _call_step(optimizer, closure)


@torch.no_grad()
def _plain_step(optimizer: Optimizer, lr: float) -> None:
    for parameter in parameters_of(optimizer):
        if parameter.grad is not None:
            parameter.add_(parameter.grad, alpha=-lr)


def _call_step(optimizer: Optimizer, closure: Callable[[], Tensor]) -> None:
    # The class's own step, not the instance's: schedulers and trainers replace the latter with a
    # wrapper that counts steps, and torch wraps the former to run hooks.
    step: Callable[..., Any] = type(optimizer).step
    if getattr(step, "hooked", False):
        step = inspect.unwrap(step, stop=lambda wrapper: not getattr(wrapper, "hooked", False))
    if needs_closure(optimizer):
        step(optimizer, closure)
    else:
        step(optimizer)


def needs_closure(optimizer: Optimizer) -> bool:
    """Whether the optimizer cannot step without a closure, as LBFGS."""
    parameter = inspect.signature(type(optimizer).step).parameters.get("closure")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def _silence_hooks(optimizer: Optimizer) -> None:
    for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        getattr(optimizer, name, {}).clear()


def _newly_built(optimizer: Optimizer) -> Optimizer:
    """The same kind of optimizer with the same settings and no history.

    Raises:
        InputError: if the optimizer's class cannot be called with its own defaults.
    """
    build = type(optimizer)
    accepted = inspect.signature(build).parameters
    settings = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    groups = [dict(group) for group in optimizer.param_groups]
    try:
        return build(groups, **settings)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Expected `optimizer` to be buildable from its own defaults for a fresh step, got "
            f"{build.__name__}: {error}. Use ProbePolicy(optimizer='live') or a PlainStep."
        ) from error
