"""RegNet (Radosavovic et al. 2020) with a stem of stride 1 and no pooling, for small images."""

from torch import nn

from rote.workloads.architectures.layers import (
    make_bottleneck,
    make_conv_norm_relu,
    make_image_classifier,
    scale_width,
)

_STEM_WIDTH = 64
_GROUP_WIDTH = 8
_STAGES = ((24, 1, 1), (56, 1, 1), (152, 4, 2), (368, 7, 2))
"""Width, depth and stride of each stage."""


def regnetx_200mf(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make RegNetX-200MF; scaled widths are rounded to whole groups of 8 channels."""
    channels = scale_width(_STEM_WIDTH, scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, channels)]
    for width, depth, stage_stride in _STAGES:
        for index in range(depth):
            before, channels = channels, scale_width(width, scale, multiple=_GROUP_WIDTH)
            layers.append(
                make_bottleneck(
                    before,
                    channels,
                    channels,
                    stride=stage_stride if index == 0 else 1,
                    groups=channels // _GROUP_WIDTH,
                )
            )
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)
