"""MobileNet (Howard et al. 2017) with a stem of stride 1, and MobileNetV2 (Sandler et al. 2018).

Both for small images, MobileNetV2 with two strides fewer.
"""

from torch import nn

from rote.workloads.architectures.layers import (
    Residual,
    make_conv_norm,
    make_conv_norm_relu,
    make_image_classifier,
    make_projection,
    scale_width,
)

_STEM_WIDTH = 32
_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
"""Width and stride of each separable convolution of the first."""
_LAST_WIDTH = 1280
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, width, depth and stride of each stage of the second."""


def mobilenet(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make MobileNet."""
    channels = scale_width(_STEM_WIDTH, scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, channels)]
    for width, stride in _BLOCKS:
        before, channels = channels, scale_width(width, scale)
        layers += [
            make_conv_norm_relu(before, before, stride=stride, groups=before),
            make_conv_norm_relu(before, channels, kernel=1),
        ]
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)


def mobilenet_v2(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make MobileNetV2; as usual for small images, every block of stride 1 is residual."""
    channels = scale_width(_STEM_WIDTH, scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, channels)]
    for expansion, width, depth, stage_stride in _STAGES:
        for index in range(depth):
            before, channels = channels, scale_width(width, scale)
            layers.append(
                _make_block(before, channels, expansion, stage_stride if index == 0 else 1)
            )
    last = scale_width(_LAST_WIDTH, scale)
    layers.append(make_conv_norm_relu(channels, last, kernel=1))
    return make_image_classifier(layers, channels=last, num_classes=num_classes)


def _make_block(in_channels: int, channels: int, expansion: int, stride: int) -> nn.Module:
    hidden = expansion * in_channels
    body = nn.Sequential(
        make_conv_norm_relu(in_channels, hidden, kernel=1),
        make_conv_norm_relu(hidden, hidden, stride=stride, groups=hidden),
        make_conv_norm(hidden, channels, kernel=1),
    )
    if stride != 1:
        return body
    return Residual(
        body, shortcut=make_projection(in_channels, channels, stride=1), after=nn.Identity()
    )
