"""ResNet (He et al. 2016) with a 3×3 stem and no stem pooling, for small images."""

from collections.abc import Callable
from typing import TypeAlias

from torch import nn

from rote.workloads.architectures.layers import (
    Residual,
    conv_norm,
    conv_norm_relu,
    image_classifier,
    projection,
    scaled,
)

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of each stage."""
_EXPANSION = 4
"""Channels of a bottleneck block over its width."""

_Block: TypeAlias = Callable[[int, int, int], nn.Module]


def resnet18(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet18.

    Args:
        num_classes: how many outputs.
        in_channels: channels of the images.
        scale: multiplies every width.

    Returns:
        The network.
    """
    return _resnet(_basic_block, 1, (2, 2, 2, 2), num_classes, in_channels, scale)


def resnet34(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet34.

    Args:
        num_classes: how many outputs.
        in_channels: channels of the images.
        scale: multiplies every width.

    Returns:
        The network.
    """
    return _resnet(_basic_block, 1, (3, 4, 6, 3), num_classes, in_channels, scale)


def resnet50(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet50.

    Args:
        num_classes: how many outputs.
        in_channels: channels of the images.
        scale: multiplies every width.

    Returns:
        The network.
    """
    return _resnet(_bottleneck, _EXPANSION, (3, 4, 6, 3), num_classes, in_channels, scale)


def _basic_block(in_channels: int, width: int, stride: int) -> Residual:
    body = nn.Sequential(conv_norm_relu(in_channels, width, stride=stride), conv_norm(width, width))
    return Residual(body, shortcut=projection(in_channels, width, stride=stride), after=nn.ReLU())


def _bottleneck(in_channels: int, width: int, stride: int) -> Residual:
    channels = _EXPANSION * width
    body = nn.Sequential(
        conv_norm_relu(in_channels, width, kernel=1),
        conv_norm_relu(width, width, stride=stride),
        conv_norm(width, channels, kernel=1),
    )
    return Residual(
        body, shortcut=projection(in_channels, channels, stride=stride), after=nn.ReLU()
    )


def _resnet(
    block: _Block,
    expansion: int,
    depths: tuple[int, ...],
    num_classes: int,
    in_channels: int,
    scale: float,
) -> nn.Sequential:
    channels = scaled(_STAGES[0][0], scale)
    layers: list[nn.Module] = [conv_norm_relu(in_channels, channels)]
    for (stage_width, stage_stride), depth in zip(_STAGES, depths, strict=True):
        width = scaled(stage_width, scale)
        for index in range(depth):
            layers.append(block(channels, width, stage_stride if index == 0 else 1))
            channels = expansion * width
    return image_classifier(layers, channels=channels, num_classes=num_classes)
