"""EfficientNet (Tan and Le 2019) with a stem of stride 1 and no last convolution, for small images.

The usual 32×32 version. Its parameter count includes a 1×1 convolution in the first block, where
nothing is expanded; here that convolution is used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rote.arguments import check_number
from rote.workloads.architectures.layers import (
    Residual,
    SqueezeExcite,
    make_conv_norm,
    make_image_classifier,
    scale_width,
)

_STEM_WIDTH = 32


@dataclass(frozen=True)
class _Stage:
    expansion: int
    width: int
    depth: int
    kernel: int
    stride: int


_STAGES = (
    _Stage(1, 16, 1, 3, 1),
    _Stage(6, 24, 2, 3, 2),
    _Stage(6, 40, 2, 5, 2),
    _Stage(6, 80, 3, 3, 2),
    _Stage(6, 112, 3, 5, 1),
    _Stage(6, 192, 4, 5, 2),
    _Stage(6, 320, 1, 3, 1),
)


def efficientnet_b0(
    *,
    num_classes: int,
    in_channels: int,
    scale: float = 1.0,
    dropout: float = 0.2,
    drop_connect: float = 0.2,
) -> nn.Module:
    """Make EfficientNetB0.

    Args:
        num_classes: the number of outputs.
        in_channels: channels of the images.
        scale: multiplies every width.
        dropout: share of pooled features dropped in train mode.
        drop_connect: share of samples that skip a residual branch in train mode, growing in
            proportion to the depth of the branch up to this.

    Raises:
        InputError: if a drop rate is out of range.
    """
    check_number("dropout", dropout, least=0, below=1)
    check_number("drop_connect", drop_connect, least=0, below=1)
    channels = scale_width(_STEM_WIDTH, scale)
    layers: list[nn.Module] = [make_conv_norm(in_channels, channels).append(nn.SiLU())]
    blocks = sum(stage.depth for stage in _STAGES)
    for stage in _STAGES:
        for index in range(stage.depth):
            before, channels = channels, scale_width(stage.width, scale)
            stride = stage.stride if index == 0 else 1
            drop = drop_connect * (len(layers) - 1) / blocks
            layers.append(_make_block(before, channels, stage, stride, drop))
    return make_image_classifier(
        layers, channels=channels, num_classes=num_classes, dropout=dropout
    )


class _SkipSamples(nn.Module):
    """Zero whole samples at random in train mode, and scale up the others."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        ones = torch.ones((len(x), 1, 1, 1), dtype=x.dtype, device=x.device)
        return x * functional.dropout(ones, self.rate)


def _make_block(
    in_channels: int, channels: int, stage: _Stage, stride: int, drop: float
) -> nn.Module:
    hidden = stage.expansion * in_channels
    gate = SqueezeExcite(hidden, max(1, in_channels // 4), activation=nn.SiLU())
    body = nn.Sequential(
        make_conv_norm(in_channels, hidden, kernel=1).append(nn.SiLU()),
        make_conv_norm(hidden, hidden, kernel=stage.kernel, stride=stride, groups=hidden),
        nn.SiLU(),
        gate,
        make_conv_norm(hidden, channels, kernel=1),
    )
    if stride != 1 or in_channels != channels:
        return body
    if drop > 0:
        body.append(_SkipSamples(drop))
    return Residual(body, shortcut=nn.Identity(), after=nn.Identity())
