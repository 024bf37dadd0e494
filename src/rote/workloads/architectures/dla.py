"""Deep layer aggregation (Yu et al. 2018) for small images."""

import torch
from torch import Tensor, nn

from rote.workloads.architectures.layers import (
    make_basic_block,
    make_conv_norm_relu,
    make_image_classifier,
    scale_width,
)

_STEM_WIDTHS = (16, 16, 32)
_TREES = ((64, 1, 1), (128, 2, 2), (256, 2, 2), (512, 1, 2))
"""Width, levels and stride of each tree."""


def dla(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make DLA, the usual small-image version."""
    layers: list[nn.Module] = []
    channels = in_channels
    for width in _STEM_WIDTHS:
        before, channels = channels, scale_width(width, scale)
        layers.append(make_conv_norm_relu(before, channels))
    for width, levels, stride in _TREES:
        before, channels = channels, scale_width(width, scale)
        layers.append(_Tree(before, channels, levels, stride))
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)


class _Tree(nn.Module):
    """Chain of lower trees and two blocks, whose outputs a 1×1 convolution aggregates.

    A tree of more than one level also aggregates one block applied to its own input.
    """

    def __init__(self, in_channels: int, channels: int, levels: int, stride: int) -> None:
        super().__init__()
        self.first = make_basic_block(in_channels, channels, stride) if levels > 1 else None
        self.chain = nn.ModuleList()
        for level in range(levels - 1, 0, -1):
            self.chain.append(_Tree(in_channels, channels, level, stride))
            in_channels, stride = channels, 1
        self.chain.append(make_basic_block(in_channels, channels, stride))
        self.chain.append(make_basic_block(channels, channels, 1))
        joined = len(self.chain) + (self.first is not None)
        self.root = make_conv_norm_relu(joined * channels, channels, kernel=1)

    def forward(self, x: Tensor) -> Tensor:
        """Aggregate every step of the chain."""
        steps: list[Tensor] = [] if self.first is None else [self.first(x)]
        for step in self.chain:
            x = step(x)
            steps.append(x)
        out: Tensor = self.root(torch.cat(steps, dim=1))
        return out
