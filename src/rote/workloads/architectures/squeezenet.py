"""SqueezeNet 1.1 (Iandola et al. 2016) with a stem of stride 1 and no stem pooling."""

from torch import nn

from rote.arguments import check_instance, check_number
from rote.workloads.architectures.layers import (
    Branches,
    initialize_for_relu,
    make_conv_relu,
    make_image_classifier,
    make_overlapping_max_pool,
    scale_width,
)

_STEM_WIDTH = 64
_STAGES = (
    ((16, 64), (16, 64)),
    ((32, 128), (32, 128)),
    ((48, 192), (48, 192), (64, 256), (64, 256)),
)
"""Squeezed width and width of each of the two expanding branches, per fire module."""


def squeezenet(
    *,
    num_classes: int,
    in_channels: int,
    scale: float = 1.0,
    dropout: float = 0.5,
    batch_norm: bool = True,
) -> nn.Module:
    """Make SqueezeNet.

    The last 1×1 convolution is applied after the average, which is the same function, and without
    the ReLU of the original, so that logits can be negative.

    Args:
        num_classes: the number of outputs.
        in_channels: channels of the images.
        scale: multiplies every width.
        dropout: share of pooled features dropped in train mode.
        batch_norm: batch norm after each convolution, without which the network does not start
            to learn at the paper's learning rates; the original has none.

    Raises:
        InputError: if an option is out of range.
    """
    check_number("dropout", dropout, least=0, below=1)
    check_instance("batch_norm", batch_norm, bool)
    channels = scale_width(_STEM_WIDTH, scale)
    layers: list[nn.Module] = make_conv_relu(in_channels, channels, batch_norm=batch_norm)
    for index, stage in enumerate(_STAGES):
        if index > 0:
            layers.append(make_overlapping_max_pool())
        for squeezed, expanded in stage:
            width = scale_width(expanded, scale)
            layers.append(_make_fire(channels, scale_width(squeezed, scale), width, batch_norm))
            channels = 2 * width
    network = make_image_classifier(
        layers, channels=channels, num_classes=num_classes, dropout=dropout
    )
    if not batch_norm:
        initialize_for_relu(network)
    return network


def _make_fire(in_channels: int, squeezed: int, expanded: int, batch_norm: bool) -> nn.Sequential:
    return nn.Sequential(
        *make_conv_relu(in_channels, squeezed, kernel=1, batch_norm=batch_norm),
        Branches(
            nn.Sequential(*make_conv_relu(squeezed, expanded, kernel=1, batch_norm=batch_norm)),
            nn.Sequential(*make_conv_relu(squeezed, expanded, batch_norm=batch_norm)),
        ),
    )
