"""Options of the small networks change what they say they change."""

from typing import Any

import pytest
import torch
from torch import nn

from rote.errors import InputError
from rote.workloads.architectures import build_architecture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("architectures")]


def make(name: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return build_architecture(name, num_classes=10, in_channels=1, image_size=8, **options)


def kinds(model: nn.Module, kind: type[nn.Module]) -> int:
    return sum(isinstance(layer, kind) for layer in model.modules())


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("width", [8, 24])
@pytest.mark.parametrize("batch_norm", [False, True])
def test_mlp_has_the_parameters_of_its_width_and_depth(
    width: int, depth: int, batch_norm: bool
) -> None:
    model = make("mlp", width=width, depth=depth, batch_norm=batch_norm)
    extra = 2 if batch_norm else 1  # gain and offset of the norm, or a bias
    hidden = 64 * width + extra * width + (depth - 1) * (width + extra) * width
    assert sum(p.numel() for p in model.parameters()) == hidden + (width + 1) * 10
    assert kinds(model, nn.BatchNorm1d) == depth * batch_norm


@pytest.mark.parametrize("shape", [(64,), (1, 8, 8), (4, 16), (2, 2, 2, 8)])
def test_mlp_flattens_any_shape(shape: tuple[int, ...]) -> None:
    assert make("mlp")(torch.zeros(3, *shape)).shape == (3, 10)


def test_mlp_takes_feature_vectors_of_any_length() -> None:
    assert make("mlp", in_features=37)(torch.zeros(3, 37)).shape == (3, 10)


def test_cnn_depth_is_the_number_of_convolutions() -> None:
    model = make("cnn", width=4, depth=3, batch_norm=False)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in layers] == [4, 8, 16]
    assert all(layer.bias is not None for layer in layers)
    assert kinds(model, nn.MaxPool2d) == 2
    assert kinds(model, nn.BatchNorm2d) == 0


@pytest.mark.parametrize("name", ["cnn", "alexnet", "squeezenet"])
def test_batch_norm_follows_every_convolution_or_none(name: str) -> None:
    with_norm = make(name, scale=0.25, batch_norm=True)
    assert kinds(with_norm, nn.BatchNorm2d) == kinds(with_norm, nn.Conv2d)
    assert kinds(make(name, scale=0.25, batch_norm=False), nn.BatchNorm2d) == 0


@pytest.mark.parametrize("name", ["mlp", "cnn", "alexnet", "squeezenet", "efficientnet_b0"])
def test_dropout_acts_in_train_mode_only(name: str) -> None:
    rates = {"drop_connect": 0.0} if name == "efficientnet_b0" else {}
    x = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    dropping = make(name, scale=0.25, dropout=0.5, **rates)
    assert not torch.equal(dropping(x), dropping(x))
    dropping.eval()
    assert torch.equal(dropping(x), dropping(x))
    steady = make(name, scale=0.25, dropout=0.0, **rates)
    assert torch.equal(steady(x), steady(x))


def test_drop_connect_acts_in_train_mode() -> None:
    model = make("efficientnet_b0", scale=0.25, dropout=0.0, drop_connect=0.9)
    x = torch.randn(8, 1, 8, 8)
    assert not torch.equal(model(x), model(x))


@pytest.mark.parametrize("name", ["alexnet", "squeezenet"])
def test_networks_without_norm_keep_the_size_of_the_signal(name: str) -> None:
    model = make(name, scale=0.5, batch_norm=False).eval()
    x = torch.randn(16, 1, 8, 8)
    assert 0.05 < model(x).std().item() < 20


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mlp", {"width": 0}, "Expected `width` to be an integer of at least 1, got 0"),
        (
            "mlp",
            {"depth": 1.5},
            "Expected `depth` to be an integer of at least 1 and at most 1000, got 1.5",
        ),
        ("mlp", {"in_features": True}, "Expected `in_features` to be an integer .*, got True"),
        (
            "mlp",
            {"dropout": 1.0},
            "Expected `dropout` to be a number that is at least 0 and below 1, got 1.0",
        ),
        ("mlp", {"batch_norm": "yes"}, "Expected `batch_norm` to be a bool, got 'yes'"),
        ("cnn", {"width": "64"}, "Expected `width` to be an integer of at least 1, got '64'"),
        (
            "cnn",
            {"depth": 0},
            "Expected `depth` to be an integer of at least 1 and at most 1000, got 0",
        ),
        ("cnn", {"dropout": float("nan")}, r"Expected `dropout` to be .*, got nan"),
        ("cnn", {"batch_norm": 1}, "Expected `batch_norm` to be a bool, got 1"),
        ("alexnet", {"dropout": -0.1}, r"Expected `dropout` to be .*, got -0.1"),
        ("alexnet", {"batch_norm": None}, "Expected `batch_norm` to be .*, got None"),
        ("squeezenet", {"dropout": "0.5"}, r"Expected `dropout` to be .*, got '0.5'"),
        ("squeezenet", {"batch_norm": 0}, "Expected `batch_norm` to be .*, got 0"),
        ("efficientnet_b0", {"dropout": 2}, r"Expected `dropout` to be .*, got 2"),
        ("efficientnet_b0", {"drop_connect": 1}, r"Expected `drop_connect` to be .*, got 1"),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(name, **options)
