"""What a model takes: a tensor, a tuple of arguments, a mapping of keyword arguments, any nest."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from rote.errors import InputError
from rote.probe.outputs import row_of_logits

Inputs: TypeAlias = Tensor | tuple[Any, ...] | list[Any] | Mapping[str, Any]


def call(model: nn.Module, inputs: Inputs) -> Any:  # noqa: ANN401  # a model may return anything
    """Give a model its inputs: mappings as keywords, tuples as arguments, tensors as they are."""
    # A model that opens an autocast of its own, as those prepared by Accelerate do, turns the cache
    # on again, and would see the weights that were converted before the step.
    torch.clear_autocast_cache()
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, tuple | list):
        return model(*inputs)
    return model(inputs)


def num_samples(inputs: Inputs) -> int:
    """How many samples the inputs hold: the length that all their tensors share.

    Raises:
        InputError: if there is no tensor, no sample, or tensors disagree.
    """
    sizes = {name: len(tensor) for name, tensor in _tensors(inputs) if tensor.dim() > 0}
    if not sizes:
        raise InputError(
            "Expected `inputs` to be a tensor, or a tuple or mapping of tensors, "
            f"got {type(inputs).__name__} without a tensor of samples. Convert arrays with "
            "torch.as_tensor, and take a batch out of a loader."
        )
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise InputError(
            f"Expected all tensors of `inputs` to hold the same number of samples, got {listed}."
        )
    size = next(iter(sizes.values()))
    if size == 0:
        raise InputError("Expected `inputs` to hold at least one sample, got 0.")
    return size


def take(inputs: Inputs, samples: slice | Tensor) -> Inputs:
    """Some of the samples, in the same nest."""
    return map_tensors(inputs, lambda tensor: tensor[samples] if tensor.dim() > 0 else tensor)


def frozen(inputs: Inputs) -> Inputs:
    """A copy that later changes to the caller's tensors do not reach."""
    with torch.inference_mode(False):
        return map_tensors(inputs, lambda tensor: tensor.detach().clone())


def map_tensors(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """Change every tensor of a nest and leave the rest as it is."""
    changed: Inputs = _map(inputs, change)
    return changed


def placed(inputs: Inputs, device: torch.device) -> Inputs:
    """The inputs where a model can take them.

    If none of the tensors is on the device, all are moved. If one is, somebody has placed them, and
    what lies elsewhere does so on purpose: the lengths of packed sequences stay on the CPU.
    """
    if any(tensor.device == device for _, tensor in _tensors(inputs)):
        return inputs
    return map_tensors(inputs, lambda tensor: tensor.to(device))


def as_batch_of_one(network: nn.Module, sample: Inputs) -> tuple[Inputs, int]:
    """The sample as a batch of one, and the number of classes that the network predicts.

    Raises:
        InputError: if the network takes it neither as it is nor with a batch axis in front.
    """
    shapes = [tuple(tensor.shape) for _, tensor in _tensors(sample)]
    if not shapes:
        raise InputError(
            "Expected `input` to be a tensor, or a tuple or mapping of tensors, "
            f"got {type(sample).__name__} without a tensor."
        )
    candidates = [map_tensors(sample, lambda tensor: tensor.unsqueeze(0))]
    if all(shape[:1] in ((), (1,)) for shape in shapes):
        candidates.insert(0, sample)
    network.eval()
    refusal: Exception | None = None
    for candidate in candidates:
        try:
            with torch.no_grad():
                logits = row_of_logits(call(network, candidate))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            refusal = error
        else:
            return candidate, logits.shape[1]
    raise InputError(
        "Expected `input` to be one sample that the model takes, with or without a batch axis of "
        f"length 1, got {', '.join(map(str, shapes))}: {refusal}"
    ) from refusal


def content_hash(inputs: Inputs) -> str:
    """SHA-256 over names, types, shapes and bytes of all tensors."""
    digest = hashlib.sha256()
    for name, tensor in _tensors(inputs):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(raw.numpy().tobytes())
    return digest.hexdigest()


def _tensors(item: object, name: str = "inputs") -> Iterator[tuple[str, Tensor]]:
    if isinstance(item, Tensor):
        yield name, item
    elif isinstance(item, Mapping):
        for key in sorted(item):
            yield from _tensors(item[key], f"{name}[{key!r}]")
    elif isinstance(item, tuple | list):
        for index, entry in enumerate(item):
            yield from _tensors(entry, f"{name}[{index}]")


def _map(item: Any, change: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401
    if isinstance(item, Tensor):
        return change(item)
    if isinstance(item, Mapping):
        return {key: _map(entry, change) for key, entry in item.items()}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(_map(entry, change) for entry in item))
    if isinstance(item, tuple | list):
        return type(item)(_map(entry, change) for entry in item)
    return item
