"""AlexNet (Krizhevsky et al. 2012) for small images.

Widths as in Krizhevsky 2014 (64, 192, 384, 256, 256 channels; 4096, 4096 units). For small images
the first convolution is 5×5 with stride 1, and the last feature map is averaged over the image.
"""

from collections import OrderedDict

from torch import nn

from rote.arguments import check_instance, check_number
from rote.workloads.architectures.layers import (
    initialize_for_relu,
    make_conv_relu,
    make_overlapping_max_pool,
    scale_width,
)

_CONVOLUTIONS = ((64, 5, True), (192, 5, True), (384, 3, False), (256, 3, False), (256, 3, True))
"""Channels, kernel, and whether a pool follows."""
_HIDDEN = 4096


def alexnet(
    *,
    num_classes: int,
    in_channels: int,
    scale: float = 1.0,
    dropout: float = 0.5,
    batch_norm: bool = True,
) -> nn.Module:
    """Make five convolutions, two hidden layers and the output layer.

    Args:
        num_classes: the number of outputs.
        in_channels: channels of the images.
        scale: multiplies every width, hidden layers included.
        dropout: share of inputs to each hidden layer dropped in train mode.
        batch_norm: batch norm after each convolution, without which the network does not start
            to learn at the paper's learning rate of 0.1; the original has none.

    Raises:
        InputError: if an option is out of range.
    """
    check_number("dropout", dropout, least=0, below=1)
    check_instance("batch_norm", batch_norm, bool)
    layers: list[nn.Module] = []
    channels = in_channels
    for width, kernel, pooled in _CONVOLUTIONS:
        before, channels = channels, scale_width(width, scale)
        layers += make_conv_relu(before, channels, kernel=kernel, batch_norm=batch_norm)
        if pooled:
            layers.append(make_overlapping_max_pool())
    hidden = scale_width(_HIDDEN, scale)
    network = nn.Sequential(
        OrderedDict(
            features=nn.Sequential(*layers),
            pool=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            hidden=nn.Sequential(
                nn.Dropout(dropout),
                nn.Linear(channels, hidden),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
            ),
            head=nn.Linear(hidden, num_classes),
        )
    )
    if not batch_norm:
        initialize_for_relu(network)
    return network
