"""ResNet (He et al. 2016) with a 3×3 stem and no stem pooling, for small images."""

from collections.abc import Callable
from typing import TypeAlias

from torch import nn

from rote.workloads.architectures.layers import (
    basic_block,
    bottleneck,
    conv_norm_relu,
    image_classifier,
    scaled,
)

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of each stage."""
_EXPANSION = 4
"""Channels of a bottleneck block over its width."""

_Block: TypeAlias = Callable[[int, int, int], nn.Module]


def resnet18(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet18."""
    return _resnet(basic_block, 1, (2, 2, 2, 2), num_classes, in_channels, scale)


def resnet34(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet34."""
    return _resnet(basic_block, 1, (3, 4, 6, 3), num_classes, in_channels, scale)


def resnet50(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet50."""
    return _resnet(_four_times_wider, _EXPANSION, (3, 4, 6, 3), num_classes, in_channels, scale)


def _four_times_wider(in_channels: int, width: int, stride: int) -> nn.Module:
    return bottleneck(in_channels, width, _EXPANSION * width, stride=stride)


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
