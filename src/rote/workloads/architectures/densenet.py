"""DenseNet (Huang et al. 2017) with a 3×3 stem and no stem pooling, for small images."""

from torch import nn

from rote.workloads.architectures.layers import Branches, make_image_classifier, scale_width

_GROWTH = 32
_DEPTHS = (6, 12, 24, 16)


def densenet121(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make DenseNet121; the scale multiplies its growth of 32, on which every width depends."""
    growth = scale_width(_GROWTH, scale)
    channels = 2 * growth
    layers: list[nn.Module] = [nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)]
    for index, depth in enumerate(_DEPTHS):
        if index > 0:
            layers.append(_make_transition(channels))
            channels //= 2
        for _ in range(depth):
            layers.append(Branches(_make_bottleneck(channels, growth), nn.Identity()))
            channels += growth
    layers += [nn.BatchNorm2d(channels), nn.ReLU()]
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)


def _make_bottleneck(in_channels: int, growth: int) -> nn.Sequential:
    hidden = 4 * growth
    return nn.Sequential(
        nn.BatchNorm2d(in_channels),
        nn.ReLU(),
        nn.Conv2d(in_channels, hidden, 1, bias=False),
        nn.BatchNorm2d(hidden),
        nn.ReLU(),
        nn.Conv2d(hidden, growth, 3, padding=1, bias=False),
    )


def _make_transition(in_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(in_channels),
        nn.ReLU(),
        nn.Conv2d(in_channels, in_channels // 2, 1, bias=False),
        nn.AvgPool2d(2, ceil_mode=True),
    )
