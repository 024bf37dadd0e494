"""The five-layer convolutional network of Nakkiran et al. 2020, used throughout the paper."""

from torch import Tensor, nn

from rote.arguments import check_instance, check_integer, check_number
from rote.workloads.architectures.layers import (
    DEEPEST,
    make_conv_relu,
    make_halving_max_pool,
    make_image_classifier,
    scale_width,
)


def cnn(
    *,
    num_classes: int,
    in_channels: int,
    scale: float = 1.0,
    width: int = 64,
    depth: int = 4,
    dropout: float = 0.0,
    batch_norm: bool = True,
) -> nn.Module:
    """Make 3×3 convolutions of doubling width, global max pooling and one linear layer.

    A 2×2 max pool follows every convolution but the first.

    Args:
        num_classes: the number of outputs.
        in_channels: channels of the images.
        scale: multiplies every width.
        width: channels of the first convolution at scale 1.
        depth: the number of convolutions.
        dropout: share of pooled features dropped in train mode.
        batch_norm: batch norm after each convolution, which then has no bias.

    Raises:
        InputError: if an option is out of range.
    """
    check_integer("width", width, least=1)
    check_integer("depth", depth, least=1, most=DEEPEST)
    check_number("dropout", dropout, least=0, below=1)
    check_instance("batch_norm", batch_norm, bool)
    layers: list[nn.Module] = []
    channels = in_channels
    for index in range(depth):
        before, channels = channels, scale_width(width * 2**index, scale)
        layers += make_conv_relu(before, channels, batch_norm=batch_norm)
        if index > 0:
            layers.append(make_halving_max_pool())
    return make_image_classifier(
        layers, channels=channels, num_classes=num_classes, dropout=dropout, pool=_GlobalMaxPool()
    )


class _GlobalMaxPool(nn.Module):
    """The largest value of each channel; unlike ``AdaptiveMaxPool2d``, deterministic on GPUs."""

    def forward(self, x: Tensor) -> Tensor:
        return x.amax(dim=(2, 3))
