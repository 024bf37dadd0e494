"""A backward pass that reaches only the gradients it is meant for."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rote.errors import InputError
from rote.probe.ranks import is_distributed
from rote.snapshot import Gradients, restored


def backward(loss: Tensor, into: list[Tensor]) -> None:
    """Differentiate a loss into the ``.grad`` of some tensors, and of no others.

    Leaves that only the loss knows (a learnable temperature in a closure) get their gradients back,
    and hooks on accumulated gradients stay silent: they often step an optimizer.

    Args:
        loss: a scalar.
        into: the tensors that may receive gradients; they have none yet.

    Raises:
        InputError: if no gradient can flow.
    """
    if not loss.requires_grad:
        raise InputError(
            "Expected the loss to depend on parameters that require gradients, got a constant. "
            "Check that the model does not detach its output."
        )
    if is_distributed() and not any(hasattr(tensor, "device_mesh") for tensor in into):
        _without_accumulation(loss, into)
        return
    wanted = {id(tensor) for tensor in into}
    leaves = list(_leaves(loss))
    strangers = Gradients(leaf for leaf in leaves if id(leaf) not in wanted)
    # The graph inside a checkpoint cannot be walked, but its parameters are known.
    with restored(strangers), restored(_SilentHooks([*leaves, *into])):
        strangers.set_aside()
        loss.backward()  # type: ignore[no-untyped-call]


def _without_accumulation(loss: Tensor, into: list[Tensor]) -> None:
    """Differentiate without a visit to the nodes where gradients accumulate.

    DDP listens there, from C++ and for every backward pass: it counts the visits that it is to
    expect (static_graph), notes who was used (find_unused_parameters), and starts to reduce.
    """
    wanted = [tensor for tensor in into if tensor.requires_grad]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    for tensor, gradient in zip(wanted, found, strict=True):
        tensor.grad = gradient


def _leaves(loss: Tensor) -> Iterator[Tensor]:
    """The tensors at the ends of the graph, where gradients accumulate."""
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


class _SilentHooks:
    """Takes the hooks on accumulated gradients off; ``restore`` puts them back."""

    def __init__(self, tensors: list[Tensor]) -> None:
        hooks = [tensor._post_accumulate_grad_hooks for tensor in tensors if tensor.is_leaf]
        unique = {id(registry): registry for registry in hooks if registry}
        self._saved = [(registry, dict(registry)) for registry in unique.values()]
        for registry, _ in self._saved:
            registry.clear()

    def restore(self) -> None:
        for registry, entries in self._saved:
            registry.update(entries)
