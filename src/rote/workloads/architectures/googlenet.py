"""GoogLeNet (Szegedy et al. 2015) with batch norm and a 3×3 stem, for small images."""

from dataclasses import asdict, dataclass

from torch import nn

from rote.workloads.architectures.layers import (
    Branches,
    make_image_classifier,
    make_overlapping_max_pool,
    scale_width,
)

_STEM_WIDTH = 192


@dataclass(frozen=True)
class _Inception:
    """Widths of the four branches; ``reduce`` is the 1×1 convolution before the larger kernel."""

    one: int
    three_reduce: int
    three: int
    five_reduce: int
    five: int
    pool: int

    @property
    def channels(self) -> int:
        return self.one + self.three + self.five + self.pool


_STAGES = (
    (_Inception(64, 96, 128, 16, 32, 32), _Inception(128, 128, 192, 32, 96, 64)),
    (
        _Inception(192, 96, 208, 16, 48, 64),
        _Inception(160, 112, 224, 24, 64, 64),
        _Inception(128, 128, 256, 24, 64, 64),
        _Inception(112, 144, 288, 32, 64, 64),
        _Inception(256, 160, 320, 32, 128, 128),
    ),
    (_Inception(256, 160, 320, 32, 128, 128), _Inception(384, 192, 384, 48, 128, 128)),
)


def googlenet(*, num_classes: int, in_channels: int, scale: float = 1.0) -> nn.Module:
    """Make GoogLeNet without auxiliary outputs; two 3×3 convolutions stand for each 5×5."""
    channels = scale_width(_STEM_WIDTH, scale)
    layers: list[nn.Module] = [*_make_convolution(in_channels, channels, 3)]
    for index, stage in enumerate(_STAGES):
        if index > 0:
            layers.append(make_overlapping_max_pool())
        for widths in stage:
            block = _scale(widths, scale)
            layers.append(_make_inception(channels, block))
            channels = block.channels
    return make_image_classifier(layers, channels=channels, num_classes=num_classes)


def _scale(widths: _Inception, scale: float) -> _Inception:
    return _Inception(**{name: scale_width(width, scale) for name, width in asdict(widths).items()})


def _make_inception(in_channels: int, widths: _Inception) -> Branches:
    return Branches(
        nn.Sequential(*_make_convolution(in_channels, widths.one, 1)),
        nn.Sequential(
            *_make_convolution(in_channels, widths.three_reduce, 1),
            *_make_convolution(widths.three_reduce, widths.three, 3),
        ),
        nn.Sequential(
            *_make_convolution(in_channels, widths.five_reduce, 1),
            *_make_convolution(widths.five_reduce, widths.five, 3),
            *_make_convolution(widths.five, widths.five, 3),
        ),
        nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1), *_make_convolution(in_channels, widths.pool, 1)
        ),
    )


def _make_convolution(
    in_channels: int, channels: int, kernel: int
) -> tuple[nn.Module, nn.Module, nn.Module]:
    # The usual small-image version keeps the bias that the norm makes redundant, and so do we:
    # the parameter count is how readers recognize it.
    convolution = nn.Conv2d(in_channels, channels, kernel, padding=kernel // 2)
    return convolution, nn.BatchNorm2d(channels), nn.ReLU()
