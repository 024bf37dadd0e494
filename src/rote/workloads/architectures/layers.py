"""Building blocks of several families: widths, normalized convolutions, residual sums, heads."""

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn

DEEPEST = 1000
"""Layers of a network whose depth can be chosen."""


def scale_width(width: int, scale: float, *, multiple: int = 1) -> int:
    """Multiply a width and round to the nearest positive multiple, as grouped convolutions need.

    Example:
        >>> scale_width(64, 0.25), scale_width(3, 0.1), scale_width(56, 0.5, multiple=8)
        (16, 1, 32)
    """
    return multiple * max(1, math.floor(width * scale / multiple + 0.5))


def make_conv_norm(
    in_channels: int, channels: int, *, kernel: int = 3, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Make a convolution that keeps the image size at stride 1, without bias, and batch norm."""
    return nn.Sequential(
        nn.Conv2d(
            in_channels,
            channels,
            kernel,
            stride=stride,
            padding=kernel // 2,
            groups=groups,
            bias=False,
        ),
        nn.BatchNorm2d(channels),
    )


def make_conv_norm_relu(
    in_channels: int, channels: int, *, kernel: int = 3, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Make ``make_conv_norm`` followed by a ReLU."""
    body = make_conv_norm(in_channels, channels, kernel=kernel, stride=stride, groups=groups)
    return body.append(nn.ReLU())


def make_conv_relu(
    in_channels: int, channels: int, *, kernel: int = 3, batch_norm: bool
) -> list[nn.Module]:
    """Make a convolution and a ReLU for a network that is known both with and without batch norm.

    A convolution that batch norm follows has no bias.
    """
    convolution = nn.Conv2d(in_channels, channels, kernel, padding=kernel // 2, bias=not batch_norm)
    norm = [nn.BatchNorm2d(channels)] if batch_norm else []
    return [convolution, *norm, nn.ReLU()]


def make_halving_max_pool() -> nn.MaxPool2d:
    """Make a 2×2 max pool that leaves a single pixel as it is.

    Rounding up instead of down changes nothing for even sizes.
    """
    return nn.MaxPool2d(2, ceil_mode=True)


def make_overlapping_max_pool() -> nn.MaxPool2d:
    """Make a 3×3 max pool of stride 2 that leaves a single pixel as it is."""
    return nn.MaxPool2d(3, stride=2, padding=1)


class Residual(nn.Module):
    """``after(body(x) + shortcut(x))``."""

    def __init__(self, body: nn.Module, *, shortcut: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        """Add the branches."""
        out: Tensor = self.after(self.body(x) + self.shortcut(x))
        return out


def make_projection(in_channels: int, channels: int, *, stride: int) -> nn.Module:
    """Make the shortcut of a residual block: 1×1 and batch norm where the shape changes."""
    if stride == 1 and in_channels == channels:
        return nn.Identity()
    return make_conv_norm(in_channels, channels, kernel=1, stride=stride)


def make_basic_block(in_channels: int, channels: int, stride: int) -> Residual:
    """Make a residual block of two 3×3 convolutions (He et al. 2016)."""
    body = nn.Sequential(
        make_conv_norm_relu(in_channels, channels, stride=stride),
        make_conv_norm(channels, channels),
    )
    return _make_residual_block(body, in_channels, channels, stride)


def make_bottleneck(
    in_channels: int, width: int, channels: int, *, stride: int, groups: int = 1
) -> Residual:
    """Make a residual block of a 3×3 convolution of some width between two 1×1 convolutions."""
    body = nn.Sequential(
        make_conv_norm_relu(in_channels, width, kernel=1),
        make_conv_norm_relu(width, width, stride=stride, groups=groups),
        make_conv_norm(width, channels, kernel=1),
    )
    return _make_residual_block(body, in_channels, channels, stride)


def _make_residual_block(body: nn.Module, in_channels: int, channels: int, stride: int) -> Residual:
    shortcut = make_projection(in_channels, channels, stride=stride)
    return Residual(body, shortcut=shortcut, after=nn.ReLU())


class SqueezeExcite(nn.Module):
    """Weigh each channel by a gate computed from all channel means (Hu et al. 2018)."""

    def __init__(self, channels: int, hidden: int, *, activation: nn.Module) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, hidden, 1),
            activation,
            nn.Conv2d(hidden, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Multiply each channel by its gate."""
        gated: Tensor = x * self.gate(x)
        return gated


class Branches(nn.Module):
    """Concatenate the channels of branches that keep the image size, over the same input."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Run every branch."""
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def make_image_classifier(
    features: list[nn.Module],
    *,
    channels: int,
    num_classes: int,
    dropout: float = 0.0,
    pool: nn.Module | None = None,
) -> nn.Sequential:
    """Put global average or other pooling and one linear layer, ``head``, behind features."""
    pools = [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if pool is None else [pool]
    if dropout > 0:
        pools.append(nn.Dropout(dropout))
    return nn.Sequential(
        OrderedDict(
            features=nn.Sequential(*features),
            pool=nn.Sequential(*pools),
            head=nn.Linear(channels, num_classes),
        )
    )


def initialize_for_relu(network: nn.Module) -> None:
    """Initialize convolutions and linear layers as He et al. 2015 and zero their biases, in place.

    Torch's default shrinks the signal about sixfold per ReLU layer, which deep networks without
    batch norm do not survive. What is drawn comes from torch's global generator.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
