"""Weights that somebody saved: read without running anything that the file may contain."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeGuard

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from rote.errors import InputError

SAFETENSORS = ".safetensors"
SUFFIXES = (SAFETENSORS, ".pt", ".pth", ".ckpt", ".bin")
_WEIGHTS = ("state_dict", "model_state_dict", "model_state", "model", "net", "weights")
_OPTIMIZERS = ("optimizer_state_dict", "optimizer_states", "optimizer_state", "optimizer")


@dataclass(frozen=True)
class SavedWeights:
    """What a checkpoint file holds.

    Attributes:
        path: the file.
        weights: tensors by name, as they were saved.
        optimizer: the state of the optimizer, where there is exactly one.
    """

    path: Path
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Any] | None = None

    def load_into(self, model: nn.Module) -> None:
        """Put the weights into a model.

        Names may have a common prefix, such as that of DDP, torch.compile or a LightningModule.

        Raises:
            InputError: if they do not fit; the model is as before then.
        """
        wanted = model.state_dict()
        prefix = _prefix_of(self.weights, wanted)
        found = {
            name: self.weights[prefix + name] for name in wanted if prefix + name in self.weights
        }
        found |= _shared(wanted, found)
        self._check_fit(wanted, found, prefix)
        model.load_state_dict(found)

    def _check_fit(
        self, wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], prefix: str
    ) -> None:
        missing = [name for name in wanted if name not in found]
        unknown = [] if prefix else [name for name in self.weights if name not in wanted]
        if missing or unknown:
            raise InputError(
                f"Expected {self.path} to hold the weights of this model, got others "
                f"(missing: {_some(missing)}; unknown: {_some(unknown)}). Check the model."
            )
        for name, tensor in wanted.items():
            if tensor.shape != found[name].shape:
                raise InputError(
                    f"Expected `{name}` in {self.path} to have shape {tuple(tensor.shape)}, got "
                    f"{tuple(found[name].shape)}. Check the model and its number of classes."
                )


def read_weights(path: Path | str, key: str | None = None) -> SavedWeights:
    """Read a checkpoint file; pickled objects other than tensors and plain values are refused.

    Args:
        path: a safetensors file, or one of ``torch.save``.
        key: the entry that holds the weights; the usual ones are tried by default.

    Raises:
        InputError: if the file is missing or damaged, or holds no weights.
    """
    path = Path(path)
    try:
        if path.suffix == SAFETENSORS:
            return SavedWeights(path, load_file(path))
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"Expected {path} to be a file of weights, got: {error}.") from error
    except Exception as error:  # whatever unpickling a stranger's bytes raises
        raise InputError(
            f"Expected {path} to hold tensors and plain values only, got {found_instead(error)}. "
            "Save `model.state_dict()`, best as safetensors."
        ) from error
    return SavedWeights(path, _weights_in(contents, path, key), _optimizer_in(contents))


def found_instead(error: Exception) -> str:
    """What a file holds that ``torch.load`` refused to load with ``weights_only=True``.

    torch advises to load it without; a file of a stranger's could then run anything.
    """
    named = re.search(r"GLOBAL (\S+) was not an allowed global", str(error))
    if named is not None:
        return f"a pickled {named[1]}, which is not loaded, as it could run code"
    if isinstance(error, UnpicklingError):
        return "pickled objects, which are not loaded, as they could run code"
    reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
    return f"a damaged file, or none of weights ({reason or type(error).__name__})"


def _weights_in(contents: object, path: Path, key: str | None) -> Mapping[str, Tensor]:
    if isinstance(contents, Mapping):
        places = [contents.get(name) for name in (_WEIGHTS if key is None else (key,))]
        for place in places if key is not None else [contents, *places]:
            if _is_weights(place):
                return place
        keys = ", ".join(str(name) for name in list(contents)[:10])
    else:
        keys = f"a {type(contents).__name__}"
    raise InputError(
        f"Expected {path} to hold a state_dict{'' if key is None else f' under {key!r}'}, got "
        f"{keys or 'nothing'}. Name the entry with `key`."
    )


def _is_weights(place: object) -> TypeGuard[Mapping[str, Tensor]]:
    return (
        isinstance(place, Mapping)
        and len(place) > 0
        and all(isinstance(name, str) for name in place)
        and all(isinstance(value, Tensor) for value in place.values())
    )


def _optimizer_in(contents: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for name in _OPTIMIZERS:
        found = contents.get(name)
        if isinstance(found, list) and len(found) == 1:  # Lightning
            found = found[0]
        if isinstance(found, Mapping) and {"state", "param_groups"} <= set(found):
            return found
    return None


def _prefix_of(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """What stands before every name of the model in the file; nothing if that is unclear."""
    first = next(iter(wanted), "")
    if not first or first in weights:
        return ""
    prefixes = [name.removesuffix(first) for name in weights if name.endswith("." + first)]
    complete = [p for p in prefixes if all(p + name in weights for name in wanted)]
    return complete[0] if len(complete) == 1 else ""


def _shared(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with two names, of which safetensors keeps one."""
    places = {wanted[name].data_ptr(): name for name in found}
    return {
        name: found[places[tensor.data_ptr()]]
        for name, tensor in wanted.items()
        if name not in found and tensor.data_ptr() in places and tensor.numel()
    }


def _some(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return (shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")) or "none"
