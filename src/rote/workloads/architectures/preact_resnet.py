"""Pre-activation ResNet (He et al. 2016b) and, with channel gates, SENet (Hu et al. 2018).

Both for small images.
"""

from torch import Tensor, nn

from rote.workloads.architectures.layers import (
    SqueezeExcite,
    make_conv_norm_relu,
    make_image_classifier,
    scale_width,
)

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of each stage of two blocks."""
_REDUCTION = 16


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
    return _make_stages(stem, num_classes, scale, gated=False)


def senet18(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make SENet18: the same with channel gates, and a norm and a ReLU after the stem."""
    stem = make_conv_norm_relu(in_channels, scale_width(_STAGES[0][0], scale))
    return _make_stages(stem, num_classes, scale, gated=True)


def _make_stages(stem: nn.Module, num_classes: int, scale: float, *, gated: bool) -> nn.Sequential:
    channels = scale_width(_STAGES[0][0], scale)
    layers = [stem]
    for width, stage_stride in _STAGES:
        for stride in (stage_stride, 1):
            before, channels = channels, scale_width(width, scale)
            gate = _make_gate(channels) if gated else None
            layers.append(PreActivationBlock(before, channels, stride, gate))
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)


def _make_gate(channels: int) -> SqueezeExcite:
    return SqueezeExcite(channels, max(1, channels // _REDUCTION), activation=nn.ReLU())
