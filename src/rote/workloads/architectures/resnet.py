"""ResNet (He et al. 2016) with a 3×3 stem and no stem pooling, for small images."""

from collections.abc import Callable
from typing import TypeAlias

from torch import nn

from rote.workloads.architectures.layers import (
    make_basic_block,
    make_bottleneck,
    make_conv_norm_relu,
    make_image_classifier,
    scale_width,
)

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of each stage."""
_EXPANSION = 4
"""Channels of a bottleneck block over its width."""

_Block: TypeAlias = Callable[[int, int, int], nn.Module]


def resnet18(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet18."""
    return _make_resnet(make_basic_block, 1, (2, 2, 2, 2), num_classes, in_channels, scale)


def resnet34(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet34."""
    return _make_resnet(make_basic_block, 1, (3, 4, 6, 3), num_classes, in_channels, scale)


def resnet50(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet50."""
    return _make_resnet(
        _make_wide_bottleneck, _EXPANSION, (3, 4, 6, 3), num_classes, in_channels, scale
    )


def _make_wide_bottleneck(in_channels: int, width: int, stride: int) -> nn.Module:
    return make_bottleneck(in_channels, width, _EXPANSION * width, stride=stride)


def _make_resnet(
    block: _Block,
    expansion: int,
    depths: tuple[int, ...],
    num_classes: int,
    in_channels: int,
    scale: float,
) -> nn.Sequential:
    channels = scale_width(_STAGES[0][0], scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, channels)]
    for (stage_width, stage_stride), depth in zip(_STAGES, depths, strict=True):
        width = scale_width(stage_width, scale)
        for index in range(depth):
            layers.append(block(channels, width, stage_stride if index == 0 else 1))
            channels = expansion * width
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)
