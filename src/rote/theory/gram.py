"""Gram matrices: H∞ of the infinitely wide two-layer ReLU network, and that of a torch module."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from rote.arguments import check_integer
from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_inputs, iterate_slices

if TYPE_CHECKING:
    import torch

BLOCK = 1024


def relu_gram(x: Numbers, *, normalize: bool = False) -> FloatArray:
    """H∞ of the two-layer ReLU network whose first layer is trained.

    ``H_ij = E_w[x_i·x_j 1{w·x_i >= 0, w·x_j >= 0}] = x_i·x_j (π - θ_ij) / (2π)`` with
    ``w ~ N(0, I)`` and ``θ_ij`` the angle between ``x_i`` and ``x_j``: for inputs of norm 1, as in
    the paper, ``θ_ij = arccos(x_i·x_j)`` and the trace is n/2.

    Args:
        x: samples, of shape (n, d) or (n, ...), none of them zero.
        normalize: scale every sample to norm 1 first, as the paper assumes.

    Returns:
        The symmetric matrix, of shape (n, n). Besides it, only blocks of 8 MiB are held.

    Raises:
        InputError: if a sample is zero: its angle to the others is not defined.

    Example:
        >>> relu_gram([[1.0, 0.0], [0.0, 1.0]]).tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    units, norms = _normalize_directions(x, "x", normalize=normalize)
    gram = np.empty((len(units), len(units)))
    for rows, columns, block in _iterate_upper_blocks(units, norms):
        gram[rows, columns] = block
        gram[columns, rows] = block.T
    return gram


def multiply_relu_gram(x: Numbers, matrix: FloatArray, *, normalize: bool = False) -> FloatArray:
    """``H∞ M`` of shape (n, columns), without holding H∞.

    Raises:
        InputError: if a sample is zero.
    """
    units, norms = _normalize_directions(x, "x", normalize=normalize)
    product = np.zeros_like(matrix)
    for rows, columns, block in _iterate_upper_blocks(units, norms):
        product[rows] += block @ matrix[columns]
        if rows != columns:
            product[columns] += block.T @ matrix[rows]
    return product


def relu_kernel(x: Numbers, z: Numbers, *, normalize: bool = False) -> FloatArray:
    """Compute the rectangle of H∞ between the samples of `x` and those of `z`.

    Args:
        x: samples of the rows, of shape (n, d) or (n, ...).
        z: samples of the columns, of shape (l, d) or (l, ...).
        normalize: scale every sample to norm 1 first.

    Returns:
        ``x_i·z_j (π - θ_ij) / (2π)``, of shape (n, l).

    Raises:
        InputError: if a sample is zero, or the samples of `x` and `z` differ in size.

    Example:
        >>> import numpy as np
        >>> relu_kernel(np.eye(3), np.eye(3)[:2]).shape
        (3, 2)
    """
    rows_units, rows_norms = _normalize_directions(x, "x", normalize=normalize)
    columns_units, columns_norms = _normalize_directions(z, "z", normalize=normalize)
    if rows_units.shape[1] != columns_units.shape[1]:
        raise InputError(
            f"Expected `z` to be samples of {rows_units.shape[1]} values as in `x`, "
            f"got {columns_units.shape[1]}. Pass samples of one kind."
        )
    kernel = np.empty((len(rows_units), len(columns_units)))
    for rows in iterate_slices(len(rows_units), BLOCK):
        kernel[rows] = _compute_block(
            rows_units[rows], columns_units, rows_norms[rows], columns_norms
        )
    return kernel


def empirical_gram(module: "torch.nn.Module", x: Numbers, *, block: int = 64) -> FloatArray:
    """``H_ij = (1/c) Σ_o ∇f_o(x_i)·∇f_o(x_j)`` over the trainable parameters of a module.

    The module is called as it is, one sample at a time inside `torch.func.vmap`, in float64; it is
    not changed. Put it in evaluation mode first if it holds batch norm or dropout. For the paper's
    network, whose second layer is fixed, freeze that layer with ``requires_grad_(False)``.

    Args:
        module: any module that maps inputs to c outputs per sample.
        x: a batch of its inputs, of shape (n, ...).
        block: samples whose gradients are held at once: two blocks of c·parameters float64 each.

    Returns:
        The Gram matrix, of shape (n, n), as numpy.

    Raises:
        InputError: if the module has no trainable parameter, or `block` is not positive.

    Example:
        >>> import torch
        >>> empirical_gram(torch.nn.Linear(3, 1), torch.eye(3)).tolist()
        [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]]
    """
    check_integer("block", block, least=1)
    # Here and not above: the rest of rote.theory is useful, and fast to import, without torch.
    import torch

    jacobian = _make_jacobian(module)
    inputs = torch.as_tensor(x)
    n = len(inputs)
    gram = np.empty((n, n))
    for rows in iterate_slices(n, block):
        row_gradients = jacobian(inputs[rows])
        outputs = row_gradients.shape[1]
        for columns in iterate_slices(n, block):
            if columns.start < rows.start:
                continue
            is_same = columns.start == rows.start
            column_gradients = row_gradients if is_same else jacobian(inputs[columns])
            products = row_gradients.flatten(1) @ column_gradients.flatten(1).T / outputs
            gram[rows, columns] = products.cpu().numpy()
            gram[columns, rows] = products.T.cpu().numpy()
    return gram


def _normalize_directions(
    x: Numbers, name: str, *, normalize: bool
) -> tuple[FloatArray, FloatArray]:
    """Return directions of norm 1, and norms (all 1 if they are to be normalized)."""
    samples = as_inputs(x, name)
    # Dividing by the largest value first keeps the squares of tiny and huge samples in range.
    largest = np.abs(samples).max(axis=1)
    zeros = np.flatnonzero(largest == 0)
    if zeros.size:
        raise InputError(
            f"Expected `{name}` to have no zero sample, got {zeros.size}, the first at index "
            f"{zeros[0]}. A zero input has no angle to the others: remove it."
        )
    units = samples / largest[:, None]
    lengths = np.linalg.norm(units, axis=1)
    units /= lengths[:, None]
    return units, np.ones_like(lengths) if normalize else lengths * largest


def _iterate_upper_blocks(
    units: FloatArray, norms: FloatArray
) -> Iterator[tuple[slice, slice, FloatArray]]:
    """Yield the blocks of H∞ on and above the diagonal, one after the other."""
    for rows in iterate_slices(len(units), BLOCK):
        for columns in iterate_slices(len(units), BLOCK):
            if columns.start < rows.start:
                continue
            block = _compute_block(units[rows], units[columns], norms[rows], norms[columns])
            if rows == columns:
                # arccos turns one rounding error in a cosine of 1 into 1e-8; the value is known.
                np.fill_diagonal(block, norms[rows] ** 2 / 2)
            yield rows, columns, block


def _compute_block(
    rows: FloatArray, columns: FloatArray, row_norms: FloatArray, column_norms: FloatArray
) -> FloatArray:
    """``|x||z| cos θ (π - θ) / (2π)`` between directions of norm 1."""
    cosines = rows @ columns.T
    # Rounding can leave a cosine of parallel samples above 1, where arccos is not a number.
    np.clip(cosines, -1.0, 1.0, out=cosines)
    angles = np.arccos(cosines)
    np.subtract(np.pi, angles, out=angles)
    cosines *= angles
    cosines /= 2 * np.pi
    cosines *= row_norms[:, None]
    cosines *= column_norms
    return cosines


def _make_jacobian(module: "torch.nn.Module") -> "Callable[[torch.Tensor], torch.Tensor]":
    """Return the function from a batch to its gradients, (batch, outputs, parameters)."""
    import torch

    trainable = {
        name: parameter.detach().double()
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }
    if not trainable:
        raise InputError(
            "`module` has no trainable parameters. Call `requires_grad_(True)` on those to "
            "differentiate."
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
