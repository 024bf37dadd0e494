"""Architectures by name, and ``package.module:factory`` for a user's own."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from rote.arguments import check_integer, check_number
from rote.errors import InputError, RoteError, did_you_mean, quote
from rote.extras import import_named

if TYPE_CHECKING:
    from torch import nn

Factory: TypeAlias = "Callable[..., nn.Module]"

MOST_WEIGHTS = 10**9
"""The most parameters of a built-in network: with gradients and momentum, 12 GB."""

_HERE = "rote.workloads.architectures"

# Addresses, not functions, so that listing the names does not import torch.
ARCHITECTURES: dict[str, str] = {
    "alexnet": f"{_HERE}.alexnet:alexnet",
    "cnn": f"{_HERE}.cnn:cnn",
    "densenet121": f"{_HERE}.densenet:densenet121",
    "dla": f"{_HERE}.dla:dla",
    "efficientnet_b0": f"{_HERE}.efficientnet:efficientnet_b0",
    "googlenet": f"{_HERE}.googlenet:googlenet",
    "mlp": f"{_HERE}.mlp:mlp",
    "mobilenet": f"{_HERE}.mobilenet:mobilenet",
    "mobilenet_v2": f"{_HERE}.mobilenet:mobilenet_v2",
    "preact_resnet18": f"{_HERE}.resnet:preact_resnet18",
    "regnetx_200mf": f"{_HERE}.resnet:regnetx_200mf",
    "resnet18": f"{_HERE}.resnet:resnet18",
    "resnet34": f"{_HERE}.resnet:resnet34",
    "resnet50": f"{_HERE}.resnet:resnet50",
    "resnext29_2x64d": f"{_HERE}.resnet:resnext29_2x64d",
    "senet18": f"{_HERE}.resnet:senet18",
    "shufflenet_v2": f"{_HERE}.shufflenet_v2:shufflenet_v2",
    "squeezenet": f"{_HERE}.squeezenet:squeezenet",
    "vgg11": f"{_HERE}.vgg:vgg11",
    "vgg13": f"{_HERE}.vgg:vgg13",
    "vgg16": f"{_HERE}.vgg:vgg16",
    "vgg19": f"{_HERE}.vgg:vgg19",
}
"""Name → address of the factory, in the form a user gives for their own."""


def build_architecture(
    name: str,
    *,
    num_classes: int,
    in_channels: int,
    image_size: int,
    scale: float = 1.0,
    **options: Any,  # noqa: ANN401  (whatever the factory takes)
) -> "nn.Module":
    """Make a network with weights drawn from torch's global generator.

    The factory is called with those of the four shape arguments that it names, and all options.

    Args:
        name: a key of ``ARCHITECTURES``, or ``package.module:factory``.
        num_classes: the number of classes, the number of outputs.
        in_channels: channels of the input images.
        image_size: height and width of the input images; from 8 to 64 is tested.
        scale: multiplies the channels and hidden units of every layer.
        **options: further keyword arguments of the factory.

    Returns:
        The network, on torch's default device, in train mode.

    Raises:
        InputError: if the name, a number or an option does not fit, or a user's factory cannot be
            imported, called, or returns something else than a module.

    Example:
        >>> model = build_architecture("cnn", num_classes=10, in_channels=1, image_size=8, width=4)
        >>> model.head
        Linear(in_features=32, out_features=10, bias=True)
    """
    factory = _resolve(name)
    check_integer("num_classes", num_classes, least=2)
    check_integer("in_channels", in_channels, least=1)
    check_integer("image_size", image_size, least=1)
    check_number("scale", scale, above=0)
    shape = {
        "num_classes": num_classes,
        "in_channels": in_channels,
        "image_size": image_size,
        "scale": scale,
    }
    arguments = _choose_arguments(name, factory, shape, options)
    if name in ARCHITECTURES:
        _check_size(name, factory, arguments)
    return _call_factory(name, factory, arguments)


def _call_factory(name: str, factory: Factory, arguments: dict[str, Any]) -> "nn.Module":
    try:
        made = factory(**arguments)
    except RoteError:
        raise
    except Exception as error:
        what = str(error).strip().partition("\n")[0]
        raise InputError(
            f"Architecture {quote(name)} failed with {type(error).__name__}: {what}."
        ) from error
    return _check_module(name, made)


def _check_size(name: str, factory: Factory, arguments: dict[str, Any]) -> None:
    """Make the network without allocating weights first, as systems may overcommit memory.

    Raises:
        InputError: if there would be too many.
    """
    import torch

    with torch.device("meta"):
        weights = sum(
            weight.numel() for weight in _call_factory(name, factory, arguments).parameters()
        )
    if weights > MOST_WEIGHTS:
        raise InputError(
            f"Expected {quote(name)} to have at most {MOST_WEIGHTS:,} weights, got {weights:,}. "
            "Take a smaller `scale`, width or depth."
        )


def _resolve(name: str) -> Factory:
    if not isinstance(name, str) or (name not in ARCHITECTURES and ":" not in name):
        raise InputError(
            f"Expected `architecture` to be one of {', '.join(ARCHITECTURES)}, "
            f"or 'package.module:factory', got {quote(name)}.{did_you_mean(name, ARCHITECTURES)}"
        )
    factory: Factory = import_named(ARCHITECTURES.get(name, name), "architecture")
    if not callable(factory):
        raise InputError(
            f"Expected architecture {quote(name)} to be a callable, got {quote(factory)}."
        )
    return factory


def _choose_arguments(
    name: str, factory: Factory, shape: dict[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    try:
        signature = inspect.signature(factory)
    except ValueError:  # some callables written in C have none
        return shape | options
    named = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    if not takes_any:
        _check_options(name, [option for option in named if option not in shape], options)
        if "scale" not in named and shape["scale"] != 1:
            raise InputError(
                f"Expected `scale` to be 1 for {quote(name)}, whose factory takes no `scale`, "
                f"got {quote(shape['scale'])}."
            )
    arguments = {key: shape[key] for key in shape if takes_any or key in named} | options
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise InputError(
            f"Architecture {quote(name)} cannot be called with "
            f"{', '.join(arguments) or 'nothing'}: {error}."
        ) from error
    return arguments


def _check_options(name: str, accepted: list[str], options: dict[str, Any]) -> None:
    unknown = next((option for option in options if option not in accepted), None)
    if unknown is None:
        return
    listed = f"one of {', '.join(accepted)}" if accepted else "left out, as it takes none"
    raise InputError(
        f"Expected options of architecture {quote(name)} to be {listed}, "
        f"got {quote(unknown)}.{did_you_mean(unknown, accepted)}"
    )


def _check_module(name: str, made: object) -> "nn.Module":
    from torch import nn  # here, so that this file loads without torch

    if not isinstance(made, nn.Module):
        raise InputError(
            f"Expected architecture {quote(name)} to return a torch.nn.Module, "
            f"got {type(made).__name__}."
        )
    return made
