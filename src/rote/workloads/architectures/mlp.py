"""The multilayer perceptron, for images and for plain feature vectors."""

from collections import OrderedDict

from torch import nn

from rote.arguments import check_instance, check_integer, check_number
from rote.workloads.architectures.layers import DEEPEST, scale_width


def mlp(
    *,
    num_classes: int,
    in_channels: int,
    image_size: int,
    scale: float = 1.0,
    width: int = 256,
    depth: int = 2,
    dropout: float = 0.0,
    batch_norm: bool = False,
    in_features: int | None = None,
) -> nn.Module:
    """Make equally wide hidden layers, each linear, (batch norm,) ReLU (, dropout).

    Inputs of any shape are flattened.

    Args:
        num_classes: the number of outputs.
        in_channels: channels of the images.
        image_size: height and width of the images.
        scale: multiplies ``width``.
        width: units of each hidden layer at scale 1.
        depth: the number of hidden layers.
        dropout: share of hidden units dropped in train mode.
        batch_norm: batch norm after each hidden layer, which then has no bias.
        in_features: numbers per input where it is not a square image; takes the place of
            ``in_channels`` × ``image_size``².

    Raises:
        InputError: if an option is out of range.
    """
    check_integer("width", width, least=1)
    check_integer("depth", depth, least=1, most=DEEPEST)
    check_number("dropout", dropout, least=0, below=1)
    check_instance("batch_norm", batch_norm, bool)
    if in_features is not None:
        check_integer("in_features", in_features, least=1)
    layers: list[nn.Module] = [nn.Flatten()]
    units = in_channels * image_size**2 if in_features is None else in_features
    for _ in range(depth):
        before, units = units, scale_width(width, scale)
        layers.append(nn.Linear(before, units, bias=not batch_norm))
        if batch_norm:
            layers.append(nn.BatchNorm1d(units))
        layers.append(nn.ReLU())
        if dropout > 0:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(
        OrderedDict(features=nn.Sequential(*layers), head=nn.Linear(units, num_classes))
    )
