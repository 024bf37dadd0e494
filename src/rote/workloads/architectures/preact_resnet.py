"""Pre-activation ResNet (He et al. 2016b) for small images."""

from torch import Tensor, nn

from rote.workloads.architectures.layers import image_classifier, scaled

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of each stage of two blocks."""


class PreActivationBlock(nn.Module):
    """Norm, ReLU, convolution, twice, added to the input.

    A shortcut that changes the shape is a 1×1 convolution of the activated input.

    Args:
        in_channels: channels in.
        channels: channels out.
        stride: stride of the first convolution.
        gate: applied to the branch before it is added.
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
    """Make PreActResNet18; as in the usual small-image version, no norm follows the last block.

    Args:
        num_classes: how many outputs.
        in_channels: channels of the images.
        scale: multiplies every width.

    Returns:
        The network.
    """
    channels = scaled(_STAGES[0][0], scale)
    layers: list[nn.Module] = [nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)]
    for width, stage_stride in _STAGES:
        for stride in (stage_stride, 1):
            before, channels = channels, scaled(width, scale)
            layers.append(PreActivationBlock(before, channels, stride))
    return image_classifier(layers, channels=channels, num_classes=num_classes)
