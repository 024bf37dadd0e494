"""SENet (Hu et al. 2018): a pre-activation ResNet with channel gates, for small images."""

from torch import nn

from rote.workloads.architectures.layers import (
    SqueezeExcite,
    conv_norm_relu,
    image_classifier,
    scaled,
)
from rote.workloads.architectures.preact_resnet import PreActivationBlock

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of each stage of two blocks."""
_REDUCTION = 16


def senet18(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make SENet18.

    Args:
        num_classes: how many outputs.
        in_channels: channels of the images.
        scale: multiplies every width.

    Returns:
        The network.
    """
    channels = scaled(_STAGES[0][0], scale)
    layers: list[nn.Module] = [conv_norm_relu(in_channels, channels)]
    for width, stage_stride in _STAGES:
        for stride in (stage_stride, 1):
            before, channels = channels, scaled(width, scale)
            hidden = max(1, channels // _REDUCTION)
            gate = SqueezeExcite(channels, hidden, activation=nn.ReLU())
            layers.append(PreActivationBlock(before, channels, stride, gate))
    return image_classifier(layers, channels=channels, num_classes=num_classes)
