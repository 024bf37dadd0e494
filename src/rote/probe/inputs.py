"""Model inputs: tensors, tuples of arguments, mappings of keyword arguments, and nests of them."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from rote.errors import InputError
from rote.snapshot import split_into_strided


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs whose samples do not lie along the first axis of every tensor.

    Attributes:
        inputs: the model's input: a tensor, a nest of tensors, or an object such as PyG's
            ``Data``.
        axis: the axis of the samples: one number for all tensors (1 for time-first batches); a
            tuple or mapping of numbers, entry by entry, with ``None`` for entries that every pass
            takes whole; or ``None`` if the model takes everything at once, like a graph, and each
            sample is a row of the logits.
        rows: for ``axis=None``, which rows of the logits are samples: indices, or how many of the
            first.

    Raises:
        InputError: if ``rows`` is missing or superfluous.

    Example:
        >>> import torch
        >>> graph = Samples((torch.ones(5, 2), torch.eye(5)), axis=None, rows=torch.tensor([1, 4]))
        >>> count_samples(graph), count_samples(Samples(torch.ones(7, 3, 2), axis=1))
        (2, 3)
    """

    inputs: Any
    axis: Any = 0
    rows: Any = None

    def __post_init__(self) -> None:
        if (self.axis is None) == (self.rows is None):
            raise InputError(
                "`rows` and axis=None go together, for samples that are rows of the logits. Got "
                f"axis={self.axis!r} and rows={self.rows!r}."
            )
        if self.rows is not None:
            object.__setattr__(self, "rows", _convert_to_indices(self.rows))


def _convert_to_indices(rows: Any) -> Tensor:  # noqa: ANN401  # whatever can number rows
    """Convert a count, a list or array of indices, or a mask to indices of rows."""
    if isinstance(rows, int) and not isinstance(rows, bool):
        return torch.arange(rows)
    try:
        found = torch.as_tensor(list(rows) if isinstance(rows, range) else rows)
    except (TypeError, ValueError, RuntimeError):
        found = torch.empty(0, 0)
    if found.dtype == torch.bool and found.dim() == 1:
        return found.nonzero().reshape(-1)
    if found.dim() != 1 or found.is_floating_point() or found.is_complex():
        raise InputError(
            "Expected `rows` to be indices of rows, a mask of them, or how many of the first, got "
            f"{type(rows).__name__}."
        )
    return found.long()


Inputs: TypeAlias = Tensor | tuple[Any, ...] | list[Any] | Mapping[str, Any] | Samples


def count_samples(inputs: Inputs) -> int:
    """Return how many samples the inputs hold: the length that all their tensors share.

    Raises:
        InputError: if there is no tensor, no sample, or tensors disagree.
    """
    if isinstance(inputs, Samples) and inputs.axis is None:
        return _check_not_empty(len(inputs.rows))
    sizes = {name: tensor.shape[axis] for name, tensor, axis in _list_divided(inputs)}
    if not sizes:
        raise InputError(
            "Expected `inputs` to be a tensor, or a tuple or mapping of tensors, "
            f"got {type(inputs).__name__} without a tensor of samples. Convert arrays with "
            "torch.as_tensor, and pass a loader or a dataset itself, not what it gives."
        )
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise InputError(
            f"Expected all tensors of `inputs` to hold the same number of samples, got {listed}. "
            "rote.Samples says along which axis samples lie in each."
        )
    return _check_not_empty(next(iter(sizes.values())))


def _check_not_empty(size: int) -> int:
    if size == 0:
        raise InputError("Expected `inputs` to hold at least one sample, got 0.")
    return size


def take(inputs: Inputs, samples: slice | Tensor) -> Inputs:
    """Select some of the samples, in the same nest."""
    if isinstance(inputs, Samples) and inputs.axis is None:
        return replace(inputs, rows=inputs.rows[samples])
    axes = {id(tensor): axis for _, tensor, axis in _list_divided(inputs)}
    return map_tensors(
        inputs,
        lambda tensor: _cut(tensor, samples, axes[id(tensor)]) if id(tensor) in axes else tensor,
    )


def _cut(tensor: Tensor, samples: slice | Tensor, axis: int) -> Tensor:
    if tensor.layout == torch.strided:
        return tensor[(slice(None),) * (axis % tensor.dim()) + (samples,)]
    # Of sparse tensors torch cuts only those that list their coordinates.
    index = torch.arange(tensor.shape[axis], device=tensor.device)[samples]
    listed: Tensor = tensor.to_sparse_coo()  # type: ignore[no-untyped-call]
    cut = listed.index_select(axis, index).coalesce()
    return cut if tensor.layout == torch.sparse_coo else cut.to_sparse(layout=tensor.layout)


def _list_divided(inputs: Inputs) -> Iterator[tuple[str, Tensor, int]]:
    """Return the tensors that hold samples, by name, with the axis of the samples."""
    if not isinstance(inputs, Samples):
        yield from ((name, t, 0) for name, t in list_tensors(inputs) if t.dim() > 0)
        return
    for name, tensor, axis in _pair_with_axes(inputs.inputs, inputs.axis, "inputs"):
        if axis is None or tensor.dim() == 0:
            continue
        if not (isinstance(axis, int) and -tensor.dim() <= axis < tensor.dim()):
            raise InputError(
                f"Expected `axis` of {name} to be one of its {tensor.dim()} axes, or None for what "
                f"has no samples, got {axis!r}. Give one per tensor, as in axis=(1, 0)."
            )
        yield name, tensor, axis


def _pair_with_axes(item: object, axis: Any, name: str) -> Iterator[tuple[str, Tensor, Any]]:  # noqa: ANN401
    if isinstance(item, Mapping) and isinstance(axis, Mapping):
        for key in item:
            yield from _pair_with_axes(item[key], axis.get(key), f"{name}[{key!r}]")
    elif isinstance(item, tuple | list) and isinstance(axis, tuple | list):
        if len(item) != len(axis):
            raise InputError(
                f"Expected `axis` to have one entry per entry of {name} ({len(item)}), got "
                f"{len(axis)}."
            )
        for place, (entry, own) in enumerate(zip(item, axis, strict=True)):
            yield from _pair_with_axes(entry, own, f"{name}[{place}]")
    else:
        yield from ((label, tensor, axis) for label, tensor in list_tensors(item, name))


def copy_inputs(inputs: Inputs) -> Inputs:
    """Copy the inputs, so that later changes to the caller's tensors do not reach them."""
    with torch.inference_mode(False):
        return map_tensors(inputs, lambda tensor: tensor.detach().clone())


def map_tensors(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """Change every tensor of a nest and leave the rest as it is."""
    changed: Inputs = _map(inputs, change)
    return changed


def move_inputs(inputs: Inputs, device: torch.device) -> Inputs:
    """Move the inputs to the device of a model.

    If none of the tensors is on the device, all are moved. If one is, the caller has placed
    them, and the others stay where they are: the lengths of packed sequences stay on the CPU.
    """
    if any(tensor.device == device for _, tensor in list_tensors(inputs)):
        return inputs
    return map_tensors(inputs, lambda tensor: tensor.to(device))


def hash_content(inputs: Inputs) -> str:
    """Return the SHA-256 over names, types, shapes and bytes of all tensors."""
    digest = hashlib.sha256()
    for name, tensor in list_tensors(inputs):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        for part in split_into_strided(tensor.detach().cpu()):
            raw = part.contiguous().reshape(-1).view(torch.uint8)
            digest.update(raw.numpy().tobytes())
    return digest.hexdigest()


def list_tensors(item: object, name: str = "inputs") -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor of a nest with its name.

    Raises:
        InputError: if a tensor is nested.
    """
    if isinstance(item, Tensor):
        if item.is_nested:
            raise InputError(
                f"Expected {name} to be a tensor with one length per axis, got a nested one. "
                "Pad it (`torch.nested.to_padded_tensor`), and let the model take the padding."
            )
        yield name, item
    elif isinstance(item, Samples):
        yield from list_tensors({"inputs": item.inputs, "rows": item.rows}, name)
    elif isinstance(item, Mapping):
        for key in sorted(item):
            yield from list_tensors(item[key], f"{name}[{key!r}]")
    elif isinstance(item, tuple | list):
        for index, entry in enumerate(item):
            yield from list_tensors(entry, f"{name}[{index}]")
    elif is_bundle(item):
        yield from list_tensors(item.to_dict(), name)  # type: ignore[attr-defined]


def is_bundle(item: object) -> bool:
    """Return whether an object carries tensors as PyG's ``Data`` does."""
    return all(hasattr(item, name) for name in ("to_dict", "clone", "apply"))


def _map(item: Any, change: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401
    if isinstance(item, Tensor):
        return change(item)
    if isinstance(item, Mapping):
        return {key: _map(entry, change) for key, entry in item.items()}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(_map(entry, change) for entry in item))
    if isinstance(item, tuple | list):
        return type(item)(_map(entry, change) for entry in item)
    if isinstance(item, Samples):
        return replace(item, inputs=_map(item.inputs, change))
    return item.clone().apply(change) if is_bundle(item) else item
