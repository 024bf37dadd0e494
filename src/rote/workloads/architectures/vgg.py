"""VGG (Simonyan and Zisserman 2015) with batch norm and one linear layer, for small images."""

from torch import nn

from rote.workloads.architectures.layers import (
    make_halving_max_pool,
    make_image_classifier,
    scale_width,
)

_STAGE_WIDTHS = (64, 128, 256, 512, 512)


def vgg11(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make VGG11: 8 convolutions and the linear layer."""
    return _make_vgg((1, 1, 2, 2, 2), num_classes, in_channels, scale)


def vgg13(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make VGG13: 10 convolutions and the linear layer."""
    return _make_vgg((2, 2, 2, 2, 2), num_classes, in_channels, scale)


def vgg16(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make VGG16: 13 convolutions and the linear layer."""
    return _make_vgg((2, 2, 3, 3, 3), num_classes, in_channels, scale)


def vgg19(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make VGG19: 16 convolutions and the linear layer."""
    return _make_vgg((2, 2, 4, 4, 4), num_classes, in_channels, scale)


def _make_vgg(
    depths: tuple[int, ...], num_classes: int, in_channels: int, scale: float
) -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = in_channels
    for width, depth in zip(_STAGE_WIDTHS, depths, strict=True):
        for _ in range(depth):
            before, channels = channels, scale_width(width, scale)
            layers += [
                nn.Conv2d(before, channels, 3, padding=1),
                nn.BatchNorm2d(channels),
                nn.ReLU(),
            ]
        layers.append(make_halving_max_pool())
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)
