"""A backward pass that reaches only the gradients it is meant for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from rote.snapshot import Gradients, restored


def backward(loss: Tensor, into: list[Tensor]) -> None:
    """Differentiate a loss into the ``.grad`` of some tensors, and of no others.

    Leaves that only the loss knows (a learnable temperature in a closure) get their gradients back,
    and hooks on accumulated gradients stay silent: they often step an optimizer.

    Args:
        loss: a scalar with a graph.
        into: the tensors that may receive gradients.
    """
    wanted = {id(tensor) for tensor in into}
    leaves = list(_leaves(loss))
    strangers = Gradients(leaf for leaf in leaves if id(leaf) not in wanted)
    with restored(strangers), _silent_hooks(leaves):
        strangers.set_aside()
        loss.backward()  # type: ignore[no-untyped-call]


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


@contextmanager
def _silent_hooks(leaves: list[Tensor]) -> Iterator[None]:
    hooks = [leaf._post_accumulate_grad_hooks for leaf in leaves]
    saved = [(registry, dict(registry)) for registry in hooks if registry]
    try:
        for registry, _ in saved:
            registry.clear()
        yield
    finally:
        for registry, entries in saved:
            registry.update(entries)
