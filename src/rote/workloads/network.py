"""From the architecture section of a spec to a network on its device."""

import torch
from torch import nn

from rote.errors import InputError
from rote.workloads.architectures import ARCHITECTURES, build_architecture
from rote.workloads.data.splits import Splits
from rote.workloads.randomness import derive_seed
from rote.workloads.spec import FieldError, MixupObjective, RunSpec

_TAKES_ROWS = "mlp"


def make_network(spec: RunSpec, splits: Splits, device: torch.device) -> nn.Module:
    """Build the network of a run, in train mode; leaves torch's global generators seeded.

    Raises:
        FieldError: if the architecture does not fit the data, or its options do not fit it.
    """
    _check_inputs(spec, splits)
    torch.manual_seed(derive_seed(spec.seed, "weights"))
    model = build_network(spec, splits)
    if splits.is_images and spec.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to(device).train()


def build_network(spec: RunSpec, splits: Splits) -> nn.Module:
    """Build the architecture of a spec in the shape that its data need.

    Raises:
        FieldError: if its options do not fit it.
    """
    try:
        return build_architecture(
            spec.architecture.name,
            num_classes=splits.num_classes,
            in_channels=splits.in_channels,
            image_size=splits.image_size,
            scale=spec.architecture.scale,
            **spec.architecture.options,
        )
    except InputError as error:
        raise FieldError("architecture", f"does not fit the data: {error}") from error


def _check_inputs(spec: RunSpec, splits: Splits) -> None:
    name = spec.architecture.name
    if not splits.is_images and name in ARCHITECTURES and name != _TAKES_ROWS:
        raise FieldError(
            "architecture.name",
            f"is {name!r}, which takes images. For rows of numbers use {_TAKES_ROWS!r}, or your "
            "own network.",
        )
    if splits.is_tokens and name == _TAKES_ROWS:
        raise FieldError(
            "architecture.name",
            f"is {name!r}, which does not take token ids. Use your own network, or count the "
            "tokens: set data.inputs = 'bag-of-words'.",
        )
    if splits.is_tokens and isinstance(spec.objective, MixupObjective):
        raise FieldError("objective.name", "is 'mixup', which does not work with token ids.")
