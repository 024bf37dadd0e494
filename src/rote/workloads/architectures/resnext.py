"""ResNeXt (Xie et al. 2017) for small images."""

from torch import nn

from rote.workloads.architectures.layers import (
    Residual,
    conv_norm,
    conv_norm_relu,
    image_classifier,
    projection,
    scaled,
)

_CARDINALITY = 2
_GROUP_WIDTHS = (64, 128, 256)
_STAGE_DEPTH = 3
_EXPANSION = 2


def resnext29_2x64d(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNeXt29 with 2 groups, of 64 channels in the first stage, and a 1×1 stem.

    Args:
        num_classes: how many outputs.
        in_channels: channels of the images.
        scale: multiplies every width; there are always 2 groups.

    Returns:
        The network.
    """
    channels = scaled(64, scale)
    layers: list[nn.Module] = [conv_norm_relu(in_channels, channels, kernel=1)]
    for stage, group_width in enumerate(_GROUP_WIDTHS):
        width = _CARDINALITY * scaled(group_width, scale)
        for index in range(_STAGE_DEPTH):
            stride = 2 if stage > 0 and index == 0 else 1
            layers.append(_block(channels, width, stride))
            channels = _EXPANSION * width
    return image_classifier(layers, channels=channels, num_classes=num_classes)


def _block(in_channels: int, width: int, stride: int) -> Residual:
    channels = _EXPANSION * width
    body = nn.Sequential(
        conv_norm_relu(in_channels, width, kernel=1),
        conv_norm_relu(width, width, stride=stride, groups=_CARDINALITY),
        conv_norm(width, channels, kernel=1),
    )
    return Residual(
        body, shortcut=projection(in_channels, channels, stride=stride), after=nn.ReLU()
    )
