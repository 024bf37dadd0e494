"""MobileNet (Howard et al. 2017) with a stem of stride 1, for small images."""

from torch import nn

from rote.workloads.architectures.layers import conv_norm_relu, image_classifier, scaled

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
"""Width and stride of each separable convolution."""


def mobilenet(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make MobileNet.

    Args:
        num_classes: how many outputs.
        in_channels: channels of the images.
        scale: multiplies every width.

    Returns:
        The network.
    """
    channels = scaled(_STEM_WIDTH, scale)
    layers: list[nn.Module] = [conv_norm_relu(in_channels, channels)]
    for width, stride in _BLOCKS:
        before, channels = channels, scaled(width, scale)
        layers += [
            conv_norm_relu(before, before, stride=stride, groups=before),
            conv_norm_relu(before, channels, kernel=1),
        ]
    return image_classifier(layers, channels=channels, num_classes=num_classes)
