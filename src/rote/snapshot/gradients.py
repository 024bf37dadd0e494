"""Gradients of leaf tensors, set aside and handed back."""

from collections.abc import Iterable

from torch import Tensor


class Gradients:
    """The ``.grad`` and ``requires_grad`` of some tensors.

    Nothing is copied: the gradient tensors themselves are taken off and put on again, so
    half-accumulated gradients survive whatever happens in between.

    Args:
        tensors: any tensors; those that are no leaves have no gradient to keep.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        leaves = [tensor for tensor in tensors if tensor.is_leaf]
        self._saved = [(leaf, leaf.grad, leaf.requires_grad) for leaf in leaves]

    def set_aside(self) -> None:
        """Take the gradients off, so that a backward pass starts from none."""
        for leaf, _, _ in self._saved:
            leaf.grad = None

    def restore(self) -> None:
        """Put the same gradient tensors back on."""
        for leaf, grad, requires_grad in self._saved:
            if not leaf.is_leaf:
                leaf.detach_()  # a forward pass wrote into it without detaching first
            leaf.grad = grad
            if leaf.requires_grad != requires_grad:
                leaf.requires_grad_(requires_grad)
