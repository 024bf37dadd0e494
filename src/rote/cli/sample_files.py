"""Samples for `rote probe`, from a file of arrays or a user's function."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rote.errors import InputError, shown
from rote.extras import import_named

if TYPE_CHECKING:
    from torch import Tensor

    from rote.probe import Inputs

FORMS = ".npy, .npz, .safetensors, .pt, or package.module:function"


def load_samples(address: str, option: str) -> "tuple[Inputs, Tensor | None]":
    """Read samples, and their given labels if there are any.

    A file of several arrays may have ``labels`` (or ``y``); what remains is one array, or the
    keyword arguments of the model. A function returns inputs, or a pair of inputs and labels.

    Raises:
        InputError: if there is no such file or function, or it holds no samples.
    """
    path = Path(address).expanduser()
    if not path.is_file() and ":" in address:
        function = import_named(address, option)
        try:
            found = function()
        except Exception as error:
            raise InputError(
                f"Expected {address} (`{option}`) to return samples, got {type(error).__name__}: "
                f"{error}."
            ) from error
        return _call_function(address, found)
    from rote.store import DAMAGED_ARRAYS

    reader = _READERS.get(path.suffix)
    if reader is not None and not path.exists():
        raise InputError(f"File not found: {shown(address)} (`{option}`). Check the path.")
    if reader is None or not path.is_file():
        raise InputError(f"Expected `{option}` to be a file ({FORMS}), got {shown(address)}.")
    try:
        contents = reader(path)
    except (*DAMAGED_ARRAYS, RuntimeError) as error:
        raise InputError(f"Cannot read {path}: {error}.") from error
    return _divide(contents, path)


def _call_function(address: str, found: object) -> "tuple[Inputs, Tensor | None]":
    if isinstance(found, tuple) and len(found) == 2:
        return found
    if found is None:
        raise InputError(f"Expected {address} to return samples, got None.")
    return cast("Inputs", found), None


def _divide(contents: Any, path: Path) -> "tuple[Inputs, Tensor | None]":  # noqa: ANN401
    import torch

    if isinstance(contents, torch.Tensor):
        return _check(contents, path), None
    if not isinstance(contents, dict) or not contents:
        raise InputError(f"Expected {path} to hold arrays, got a {type(contents).__name__}.")
    labels = [contents.pop(name) for name in ("labels", "y") if name in contents]
    arrays = {name: _check(array, path) for name, array in contents.items()}
    inputs = next(iter(arrays.values())) if len(arrays) == 1 else arrays
    if labels and labels[0].is_floating_point():
        raise InputError(f"Expected the labels in {path} to be integers, got {labels[0].dtype}.")
    return inputs, labels[0].long() if labels else None


def _check(array: "Tensor", path: Path) -> "Tensor":
    import torch

    if not isinstance(array, torch.Tensor):
        raise InputError(f"Expected {path} to hold arrays, got a {type(array).__name__} in it.")
    if array.dtype == torch.float64:
        return array.float()  # NumPy's default is no network's
    if array.dtype == torch.uint8:
        raise InputError(
            f"Expected the samples in {path} to be prepared as in training, got raw bytes (uint8). "
            "Scale and normalize them first, or give a function: package.module:function."
        )
    return array


def _read_numpy(path: Path) -> "Tensor | dict[str, Tensor]":
    import numpy as np
    import torch

    with path.open("rb") as file:
        found = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return torch.from_numpy(found)
        return {name: torch.from_numpy(found[name]) for name in found.files}


def _read_safetensors(path: Path) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _read_torch(path: Path) -> object:
    import pickle

    import torch

    from rote.tracking import explain_refused

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(explain_refused(error)) from error


_READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": _read_numpy,
    ".npz": _read_numpy,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
