"""The Gram matrix that a torch module has right now, to compare with H∞."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, slices

if TYPE_CHECKING:
    import torch


def empirical_gram(module: "torch.nn.Module", x: Numbers, *, block: int = 64) -> FloatArray:
    """Compute ``H_ij = (1/c) Σ_o ∇f_o(x_i)·∇f_o(x_j)`` over the trainable parameters of a module.

    The module is called as it is, one sample at a time inside `torch.func.vmap`, in float64; it is
    not changed. Put it in evaluation mode first if it holds batch norm or dropout. For the paper's
    network, whose second layer is fixed, freeze that layer with ``requires_grad_(False)``.

    Args:
        module: Any module that maps inputs to c outputs per sample.
        x: A batch of its inputs, of shape (n, ...).
        block: Samples whose gradients are held at once: two blocks of c·parameters float64 each.

    Returns:
        The Gram matrix, of shape (n, n), as numpy.

    Raises:
        InputError: The module has no trainable parameter, or `block` is not positive.
    """
    if block < 1:
        raise InputError(f"Expected `block` to be at least 1, got {block}. Pass a block size.")
    # Here and not above: the rest of rote.theory is useful, and fast to import, without torch.
    import torch

    jacobian = _jacobian_of(module)
    inputs = torch.as_tensor(x)
    n = len(inputs)
    gram = np.empty((n, n))
    for rows in slices(n, block):
        row_gradients = jacobian(inputs[rows])
        outputs = row_gradients.shape[1]
        for columns in slices(n, block):
            if columns.start < rows.start:
                continue
            is_same = columns.start == rows.start
            column_gradients = row_gradients if is_same else jacobian(inputs[columns])
            products = row_gradients.flatten(1) @ column_gradients.flatten(1).T / outputs
            gram[rows, columns] = products.cpu().numpy()
            gram[columns, rows] = products.T.cpu().numpy()
    return gram


def _jacobian_of(module: "torch.nn.Module") -> "Callable[[torch.Tensor], torch.Tensor]":
    """Make the function from a batch to its gradients, of shape (batch, outputs, parameters)."""
    import torch

    trainable = {
        name: parameter.detach().double()
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }
    if not trainable:
        raise InputError(
            "Expected `module` to have trainable parameters, got none. "
            "Call `requires_grad_(True)` on those to differentiate."
        )
    fixed = {
        name: tensor.detach().double() if tensor.is_floating_point() else tensor.detach()
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
        if name not in trainable
    }
    device = next(iter(trainable.values())).device

    def outputs(parameters: dict[str, torch.Tensor], sample: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.func.functional_call(
            module, (parameters, fixed), (sample[None],)
        )
        return result.flatten()

    per_sample = torch.func.vmap(torch.func.jacrev(outputs), in_dims=(None, 0))

    def jacobian(batch: torch.Tensor) -> torch.Tensor:
        values = batch.detach().to(device)
        # Whole numbers stay as they are: they may be the indices of an embedding.
        values = values.double() if values.is_floating_point() else values
        parts = per_sample(trainable, values).values()
        return torch.cat([part.flatten(2) for part in parts], dim=2)

    return jacobian
