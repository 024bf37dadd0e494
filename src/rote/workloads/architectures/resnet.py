"""Residual networks with a small stem and no stem pooling, for small images.

ResNet (He et al. 2016), pre-activation ResNet (He et al. 2016b) and, with channel gates, SENet (Hu
et al. 2018); ResNeXt (Xie et al. 2017); RegNet (Radosavovic et al. 2020).
"""

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor, nn

from rote.workloads.architectures.layers import (
    SqueezeExcite,
    make_basic_block,
    make_bottleneck,
    make_conv_norm_relu,
    make_image_classifier,
    scale_width,
)

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of each stage of ResNet, PreActResNet and SENet."""
_EXPANSION = 4
"""Channels of a bottleneck block of ResNet over its width."""
_GATE_REDUCTION = 16
_NEXT_GROUPS = 2
_NEXT_WIDTHS = (64, 128, 256)
_NEXT_DEPTH = 3
_NEXT_EXPANSION = 2
_REG_STEM_WIDTH = 64
_REG_GROUP_WIDTH = 8
_REG_STAGES = ((24, 1, 1), (56, 1, 1), (152, 4, 2), (368, 7, 2))
"""Width, depth and stride of each stage."""

_Block: TypeAlias = Callable[[int, int, int], nn.Module]


def resnet18(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet18."""
    return _make_resnet(make_basic_block, 1, (2, 2, 2, 2), num_classes, in_channels, scale)


def resnet34(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet34."""
    return _make_resnet(make_basic_block, 1, (3, 4, 6, 3), num_classes, in_channels, scale)


def resnet50(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNet50."""
    return _make_resnet(
        _make_wide_bottleneck, _EXPANSION, (3, 4, 6, 3), num_classes, in_channels, scale
    )


def _make_wide_bottleneck(in_channels: int, width: int, stride: int) -> nn.Module:
    return make_bottleneck(in_channels, width, _EXPANSION * width, stride=stride)


def _make_resnet(
    block: _Block,
    expansion: int,
    depths: tuple[int, ...],
    num_classes: int,
    in_channels: int,
    scale: float,
) -> nn.Sequential:
    channels = scale_width(_STAGES[0][0], scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, channels)]
    for (stage_width, stage_stride), depth in zip(_STAGES, depths, strict=True):
        width = scale_width(stage_width, scale)
        for index in range(depth):
            layers.append(block(channels, width, stage_stride if index == 0 else 1))
            channels = expansion * width
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)


class PreActivationBlock(nn.Module):
    """Norm, ReLU, convolution, twice, added to the input.

    A shortcut that changes the shape is a 1×1 convolution of the activated input. The gate is
    applied to the branch before it is added.
    """

    def __init__(
        self, in_channels: int, channels: int, stride: int, gate: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.activate = nn.Sequential(nn.BatchNorm2d(in_channels), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        )
        if gate is not None:
            self.body.append(gate)
        self.shortcut: nn.Module | None = None
        if stride != 1 or in_channels != channels:
            self.shortcut = nn.Conv2d(in_channels, channels, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to the input or its projection."""
        activated = self.activate(x)
        kept = x if self.shortcut is None else self.shortcut(activated)
        out: Tensor = self.body(activated) + kept
        return out


def preact_resnet18(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make PreActResNet18; as in the usual small-image version, no norm follows the last block."""
    width = scale_width(_STAGES[0][0], scale)
    stem = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
    return _make_preact_resnet(stem, num_classes, scale, gated=False)


def senet18(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make SENet18: the same with channel gates, and a norm and a ReLU after the stem."""
    stem = make_conv_norm_relu(in_channels, scale_width(_STAGES[0][0], scale))
    return _make_preact_resnet(stem, num_classes, scale, gated=True)


def _make_preact_resnet(
    stem: nn.Module, num_classes: int, scale: float, *, gated: bool
) -> nn.Sequential:
    channels = scale_width(_STAGES[0][0], scale)
    layers = [stem]
    for width, stage_stride in _STAGES:
        for stride in (stage_stride, 1):
            before, channels = channels, scale_width(width, scale)
            gate = _make_gate(channels) if gated else None
            layers.append(PreActivationBlock(before, channels, stride, gate))
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)


def _make_gate(channels: int) -> SqueezeExcite:
    return SqueezeExcite(channels, max(1, channels // _GATE_REDUCTION), activation=nn.ReLU())


def resnext29_2x64d(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make ResNeXt29 with 2 groups at every scale, 64 channels wide at first, and a 1×1 stem."""
    channels = scale_width(64, scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, channels, kernel=1)]
    for stage, group_width in enumerate(_NEXT_WIDTHS):
        width = _NEXT_GROUPS * scale_width(group_width, scale)
        for index in range(_NEXT_DEPTH):
            stride = 2 if stage > 0 and index == 0 else 1
            before, channels = channels, _NEXT_EXPANSION * width
            layers.append(
                make_bottleneck(before, width, channels, stride=stride, groups=_NEXT_GROUPS)
            )
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)


def regnetx_200mf(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make RegNetX-200MF; scaled widths are rounded to whole groups of 8 channels."""
    channels = scale_width(_REG_STEM_WIDTH, scale)
    layers: list[nn.Module] = [make_conv_norm_relu(in_channels, channels)]
    for width, depth, stage_stride in _REG_STAGES:
        for index in range(depth):
            before, channels = channels, scale_width(width, scale, multiple=_REG_GROUP_WIDTH)
            layers.append(
                make_bottleneck(
                    before,
                    channels,
                    channels,
                    stride=stage_stride if index == 0 else 1,
                    groups=channels // _REG_GROUP_WIDTH,
                )
            )
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)
