"""RegNet (Radosavovic et al. 2020) with a stem of stride 1 and no pooling, for small images."""

from torch import nn

from rote.workloads.architectures.layers import (
    Residual,
    conv_norm,
    conv_norm_relu,
    image_classifier,
    projection,
    scaled,
)

_STEM_WIDTH = 64
_GROUP_WIDTH = 8
_STAGES = ((24, 1, 1), (56, 1, 1), (152, 4, 2), (368, 7, 2))
"""Width, depth and stride of each stage."""


def regnetx_200mf(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make RegNetX-200MF.

    Args:
        num_classes: how many outputs.
        in_channels: channels of the images.
        scale: multiplies every width; stages are rounded to whole groups of 8 channels.

    Returns:
        The network.
    """
    channels = scaled(_STEM_WIDTH, scale)
    layers: list[nn.Module] = [conv_norm_relu(in_channels, channels)]
    for width, depth, stage_stride in _STAGES:
        for index in range(depth):
            before, channels = channels, scaled(width, scale, multiple=_GROUP_WIDTH)
            layers.append(_block(before, channels, stage_stride if index == 0 else 1))
    return image_classifier(layers, channels=channels, num_classes=num_classes)


def _block(in_channels: int, channels: int, stride: int) -> Residual:
    body = nn.Sequential(
        conv_norm_relu(in_channels, channels, kernel=1),
        conv_norm_relu(channels, channels, stride=stride, groups=channels // _GROUP_WIDTH),
        conv_norm(channels, channels, kernel=1),
    )
    return Residual(
        body, shortcut=projection(in_channels, channels, stride=stride), after=nn.ReLU()
    )
