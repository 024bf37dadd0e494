"""The temporary step: the gradients of S̃, and the step along them."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from rote.errors import InputError
from rote.probe.compatibility import JointOptimizer, list_members
from rote.probe.policy import PlainStep, StepRule
from rote.probe.ranks import is_distributed
from rote.snapshot import Gradients, ObjectState, find_parameters, find_reachable, restore_after

Backward: TypeAlias = Callable[[Tensor], object]
"""A function that differentiates a loss in place of ``loss.backward()``."""

_STEP_HOOKS = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)
"""Where torch keeps the hooks that run at the steps of all optimizers."""


def run_backward(loss: Tensor, into: list[Tensor], how: Backward | None = None) -> None:
    """Differentiate a loss into the ``.grad`` of some tensors, and of no others.

    Other leaves of the loss, such as a learnable temperature, keep their gradients. Hooks on
    accumulated gradients do not run, since they often step an optimizer.

    Args:
        loss: a scalar.
        into: the tensors that may receive gradients, which are added to those they have.
        how: how the loop does it (``fabric.backward``, or with ``create_graph``).

    Raises:
        InputError: if no gradient can flow, or ``how`` is given with several ranks.
    """
    if not loss.requires_grad:
        raise InputError(
            "The loss does not depend on parameters that require gradients. "
            "Check that the model does not detach its output."
        )
    if is_distributed() and not any(hasattr(tensor, "device_mesh") for tensor in into):
        if how is not None:
            raise InputError(
                "`backward` cannot be used once torch.distributed is initialized: DDP observes "
                "every backward pass. Leave it out, or probe in one process."
            )
        _differentiate_directly(loss, into)
        return
    wanted = {id(tensor) for tensor in into}
    leaves = list(_find_leaves(loss))
    strangers = Gradients(leaf for leaf in leaves if id(leaf) not in wanted)
    # The graph inside a checkpoint cannot be walked, but its parameters are known.
    hooks = [leaf._post_accumulate_grad_hooks for leaf in (*leaves, *into) if leaf.is_leaf]
    silenced = _SilencedHooks(hooks)
    with restore_after(strangers), restore_after(silenced):
        strangers.set_aside()
        silenced.silence()
        loss.backward() if how is None else how(loss)  # type: ignore[no-untyped-call]


def _differentiate_directly(loss: Tensor, into: list[Tensor]) -> None:
    """Differentiate without visiting the nodes where gradients accumulate.

    DDP has hooks there in C++: they count visits (static_graph), note which parameters were used
    (find_unused_parameters), and start to reduce.
    """
    wanted = [tensor for tensor in into if tensor.requires_grad]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    for tensor, gradient in zip(wanted, found, strict=True):
        if tensor.grad is None or gradient is None:
            tensor.grad = gradient if tensor.grad is None else tensor.grad
        else:
            tensor.grad += gradient


def _find_leaves(loss: Tensor) -> Iterator[Tensor]:
    """Yield the leaves of the graph, where gradients accumulate."""
    stack: list[Any] = [loss.grad_fn]
    seen = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        stack.extend(following for following, _ in node.next_functions)


@contextmanager
def make_stepper(
    rule: StepRule,
    optimizer: Optimizer,
    closure: Callable[[], Tensor],
    *,
    always_closure: bool = False,
    device: str | None = None,
) -> Iterator[Callable[[], None]]:
    """Provide steps that change parameters and their gradients, and nothing else.

    Args:
        rule: which step.
        optimizer: the training optimizer. Its state is restored at the end of the block, and hooks
            on steps do not run in it, since they may do anything (average weights, log, clip).
        closure: re-evaluates loss and gradients, for optimizers that cannot step without (LBFGS).
        always_closure: pass the closure even if the optimizer's signature does not ask for it.
        device: where to keep the copy of the optimizer's state; by default where it is.

    Yields:
        A function that takes one step along the parameters' gradients.
    """
    if isinstance(rule, PlainStep):
        yield lambda: _take_plain_step(optimizer, rule.lr)
        return
    stepping = optimizer
    if rule == "fresh":
        fresh = [_build_anew(member) for member in list_members(optimizer)]
        stepping = fresh[0] if len(fresh) == 1 else JointOptimizer(fresh)
    inside = [thing for thing in find_reachable([stepping]) if isinstance(thing, Optimizer)]
    hooks: list[dict[Any, Any]] = [
        *_STEP_HOOKS,
        *(registry for thing in inside for registry in _list_hooks(thing)),
    ]
    # Silence hooks before the state is copied: what they hold may be large and does not change.
    silenced = _SilencedHooks(hooks)
    with restore_after(silenced):
        silenced.silence()
        state = ObjectState(stepping, without=find_parameters(stepping), device=device)
        with restore_after(state):
            yield lambda: _take_step(stepping, closure, always_closure=always_closure)


@torch.no_grad()
def _take_plain_step(optimizer: Optimizer, lr: float) -> None:
    for parameter in find_parameters(optimizer):
        if parameter.grad is not None:
            parameter.add_(parameter.grad, alpha=-lr)


def _take_step(
    optimizer: Optimizer, closure: Callable[[], Tensor], *, always_closure: bool
) -> None:
    for member in list_members(optimizer):
        # The class's own step, not the instance's: schedulers and trainers replace the latter with
        # a wrapper that counts steps, and torch wraps the former to run hooks.
        step: Callable[..., Any] | None = getattr(type(member), "step", None)
        if step is None:  # a proxy
            step = lambda proxy, *arguments: proxy.step(*arguments)  # noqa: E731
        elif getattr(step, "hooked", False):
            step = inspect.unwrap(step, stop=lambda wrapper: not getattr(wrapper, "hooked", False))
        if always_closure or needs_closure(member):
            step(member, closure)
        else:
            step(member)


def needs_closure(optimizer: Optimizer) -> bool:
    """Return whether the optimizer cannot step without a closure, as LBFGS."""
    if isinstance(optimizer, JointOptimizer):
        return all(map(needs_closure, optimizer.members))
    parameter = inspect.signature(optimizer.step).parameters.get("closure")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def _list_hooks(optimizer: Optimizer) -> list[dict[Any, Any]]:
    names = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    return [vars(optimizer).get(name, {}) for name in names]


class _SilencedHooks:
    """The hooks of some registries; ``silence`` removes them, ``restore`` adds them again."""

    def __init__(self, registries: Iterable[dict[Any, Any] | None]) -> None:
        unique = {id(registry): registry for registry in registries if registry}
        self._saved = [(registry, dict(registry)) for registry in unique.values()]

    def silence(self) -> None:
        for registry, _ in self._saved:
            registry.clear()

    def restore(self) -> None:
        for registry, entries in self._saved:
            registry.update(entries)


def _build_anew(optimizer: Optimizer) -> Optimizer:
    """Build the same kind of optimizer with the same settings and no history.

    Raises:
        InputError: if the optimizer's class cannot be called with its own defaults.
    """
    build = type(optimizer)
    if not hasattr(optimizer, "defaults"):
        raise InputError(
            f"{build.__name__} has no defaults to build a fresh optimizer from. "
            "Use ProbePolicy(optimizer='live') or a PlainStep."
        )
    accepted = inspect.signature(build).parameters
    settings = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    groups = [dict(group) for group in optimizer.param_groups]
    try:
        return build(groups, **settings)
    except Exception as error:
        raise InputError(
            f"{build.__name__} cannot be built from its own defaults for a fresh step: "
            f"{error}. Use ProbePolicy(optimizer='live') or a PlainStep."
        ) from error
