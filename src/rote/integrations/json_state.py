"""States with tensors in them, as JSON and back, bit for bit."""

import base64
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_MARK = "tensor_base64"


def to_json(state: Any) -> Any:  # noqa: ANN401  # any nest of mappings, lists, tensors and numbers
    """A nest in which every tensor is a text of its bytes.

    Args:
        state: mappings, lists and tuples of tensors and of what JSON knows.

    Returns:
        Dictionaries and lists of what JSON knows.

    Example:
        >>> from_json(to_json({"a": [torch.tensor([1.5, 2.5])], "b": 3}))
        {'a': [tensor([1.5000, 2.5000])], 'b': 3}
    """
    if isinstance(state, Tensor):
        values = state.detach().cpu().contiguous()
        raw = values.reshape(-1).view(torch.uint8).numpy().tobytes()
        kind = str(values.dtype).removeprefix("torch.")
        text = base64.b64encode(raw).decode("ascii")
        return {_MARK: text, "dtype": kind, "shape": list(values.shape)}
    if isinstance(state, Mapping):
        return {key: to_json(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [to_json(value) for value in state]
    return state


def from_json(state: Any) -> Any:  # noqa: ANN401
    """The inverse of ``to_json``; tuples have become lists.

    Args:
        state: what ``to_json`` returned.

    Returns:
        The nest with its tensors.
    """
    if isinstance(state, Mapping):
        if _MARK in state:
            raw = bytearray(base64.b64decode(state[_MARK]))
            bits = torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0).byte()
            return bits.view(getattr(torch, state["dtype"])).reshape(state["shape"])
        return {key: from_json(value) for key, value in state.items()}
    if isinstance(state, list):
        return [from_json(value) for value in state]
    return state
