"""ResNeXt (Xie et al. 2017) for small images."""

from torch import nn

from rote.workloads.architectures.layers import (
    make_bottleneck,
    make_conv_norm_relu,
    make_image_classifier,
    scale_width,
)

_CARDINALITY = 2
_GROUP_WIDTHS = (64, 128, 256)
_STAGE_DEPTH = 3
_EXPANSION = 2


def resnext29_2x64d(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNeXt29 with 2 groups at every scale, 64 channels wide at first, and a 1×1 stem."""
    channels = scale_width(64, scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, channels, kernel=1)]
    for stage, group_width in enumerate(_GROUP_WIDTHS):
        width = _CARDINALITY * scale_width(group_width, scale)
        for index in range(_STAGE_DEPTH):
            stride = 2 if stage > 0 and index == 0 else 1
            before, channels = channels, _EXPANSION * width
            layers.append(
                make_bottleneck(before, width, channels, stride=stride, groups=_CARDINALITY)
            )
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)
