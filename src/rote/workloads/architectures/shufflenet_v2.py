"""ShuffleNetV2 (Ma et al. 2018) with a stem of stride 1, for small images."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rote.workloads.architectures.layers import (
    make_conv_norm,
    make_conv_norm_relu,
    make_image_classifier,
    scale_width,
)

_DEPTHS = (4, 8, 4)


@dataclass(frozen=True)
class _Widths:
    stem: int
    stages: tuple[int, int, int]
    last: int


# The paper's table of widths, which is not proportional to its own scale.
_PUBLISHED = {
    0.5: _Widths(24, (48, 96, 192), 1024),
    1.0: _Widths(24, (116, 232, 464), 1024),
    1.5: _Widths(24, (176, 352, 704), 1024),
    2.0: _Widths(24, (244, 488, 976), 2048),
}


def shufflenet_v2(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ShuffleNetV2.

    Scales of 0.5, 1, 1.5 and 2 give the published networks, whose stem (24) and last convolution
    (1024, or 2048 at 2) do not follow the scale; any other multiplies every width of the network
    at 1.
    """
    widths = _PUBLISHED.get(scale) or _multiply_widths(scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, widths.stem)]
    channels = widths.stem
    for width, depth in zip(widths.stages, _DEPTHS, strict=True):
        layers.append(_Downsample(channels, width))
        layers += [_Shuffle(width) for _ in range(depth - 1)]
        channels = width
    layers.append(make_conv_norm_relu(channels, widths.last, kernel=1))
    return make_image_classifier(layers, channels=widths.last, num_classes=num_classes)


def _multiply_widths(scale: float) -> _Widths:
    base = _PUBLISHED[1.0]
    first, second, third = (scale_width(width, scale, multiple=2) for width in base.stages)
    return _Widths(
        scale_width(base.stem, scale), (first, second, third), scale_width(base.last, scale)
    )


class _Shuffle(nn.Module):
    """Transform half of the channels and interleave the halves."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.body = _make_branch(half, half, stride=1)

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, dim=1)
        return _interleave(kept, self.body(changed))


class _Downsample(nn.Module):
    """Halve the image in two branches of half the new channels each, and interleave them."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.shortcut = nn.Sequential(
            make_conv_norm(in_channels, in_channels, stride=2, groups=in_channels),
            make_conv_norm_relu(in_channels, half, kernel=1),
        )
        self.body = _make_branch(in_channels, half, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return _interleave(self.shortcut(x), self.body(x))


def _make_branch(in_channels: int, width: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(
        make_conv_norm_relu(in_channels, width, kernel=1),
        make_conv_norm(width, width, stride=stride, groups=width),
        make_conv_norm_relu(width, width, kernel=1),
    )


def _interleave(first: Tensor, second: Tensor) -> Tensor:
    # Unlike a stack and a reshape, this keeps channels_last tensors in their layout.
    return functional.channel_shuffle(torch.cat((first, second), dim=1), 2)
