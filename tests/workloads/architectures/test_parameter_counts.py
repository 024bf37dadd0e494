"""An architecture is the right one when it has the parameters and the last map of the usual one."""

from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from rote.workloads.architectures import ARCHITECTURES, build_architecture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("architectures")]

# 10 classes, 3 channels, 32×32; from the paper digest except where a comment says otherwise.
COUNTS = {
    "vgg11": 9_231_114,
    "vgg13": 9_416_010,
    "vgg16": 14_728_266,
    "vgg19": 20_040_522,
    "resnet18": 11_173_962,
    "resnet34": 21_282_122,
    "resnet50": 23_520_842,
    "preact_resnet18": 11_171_146,
    "googlenet": 6_166_250,
    "densenet121": 6_956_298,
    "resnext29_2x64d": 9_128_778,
    "mobilenet": 3_217_226,
    "mobilenet_v2": 2_296_922,
    "senet18": 11_260_354,
    "shufflenet_v2": 1_263_854,
    "efficientnet_b0": 3_599_686,
    "regnetx_200mf": 2_321_946,
    "dla": 16_291_386,
    # Convolutions, norms, linear layer by hand.
    "cnn": 9 * (3 * 64 + 64 * 128 + 128 * 256 + 256 * 512) + 2 * 960 + 513 * 10,
    "mlp": (3 * 32 * 32 + 1) * 256 + 257 * 256 + 257 * 10,
}

# The size over which the usual networks average at 32×32.
LAST_MAP = {
    "alexnet": 4,
    "cnn": 4,
    "densenet121": 4,
    "dla": 4,
    "efficientnet_b0": 2,
    "googlenet": 8,
    "mobilenet": 2,
    "mobilenet_v2": 4,
    "preact_resnet18": 4,
    "regnetx_200mf": 8,
    "resnet18": 4,
    "resnet34": 4,
    "resnet50": 4,
    "resnext29_2x64d": 8,
    "senet18": 4,
    "shufflenet_v2": 4,
    "squeezenet": 8,
    "vgg11": 1,
    "vgg13": 1,
    "vgg16": 1,
    "vgg19": 1,
}


@cache
def on_meta(name: str, **arguments: Any) -> nn.Module:
    shape: dict[str, Any] = {"num_classes": 10, "in_channels": 3, "image_size": 32}
    with torch.device("meta"):
        return build_architecture(name, **(shape | arguments))


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "expected"), COUNTS.items())
def test_parameter_count_is_the_usual_one(name: str, expected: int) -> None:
    assert count(on_meta(name)) == expected


def test_half_shufflenet_is_the_published_one() -> None:
    assert count(on_meta("shufflenet_v2", scale=0.5)) == 352_042


def test_squeezenet_without_batch_norm_is_version_1_1() -> None:
    published_with_1000_classes = 1_235_496
    assert count(on_meta("squeezenet", batch_norm=False, num_classes=1000)) == (
        published_with_1000_classes
    )


def test_alexnet_has_five_convolutions_and_three_linear_layers() -> None:
    convolutions = 25 * (3 * 64 + 64 * 192) + 9 * (192 * 384 + 384 * 256 + 256 * 256)
    norms = 2 * (64 + 192 + 384 + 256 + 256)
    linear = 257 * 4096 + 4097 * 4096 + 4097 * 10
    assert count(on_meta("alexnet")) == convolutions + norms + linear
    biases = norms // 2
    assert count(on_meta("alexnet", batch_norm=False)) == convolutions + biases + linear


def test_every_architecture_has_an_expected_count_or_its_own_test() -> None:
    assert set(ARCHITECTURES) == set(COUNTS) | {"alexnet", "squeezenet"}
    assert set(ARCHITECTURES) == set(LAST_MAP) | {"mlp"}


@pytest.mark.parametrize(("name", "size"), LAST_MAP.items())
def test_last_feature_map_has_the_usual_size(name: str, size: int) -> None:
    model = on_meta(name)
    assert isinstance(model, nn.Sequential)
    features = model.get_submodule("features")
    assert features(torch.empty(2, 3, 32, 32, device="meta")).shape[-2:] == (size, size)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_counts_grow_with_classes_and_channels_only_where_they_enter(name: str) -> None:
    base = on_meta(name)
    head = base.get_submodule("head")
    assert isinstance(head, nn.Linear)
    assert count(on_meta(name, num_classes=13)) - count(base) == 3 * (head.in_features + 1)
    first = next(layer for layer in base.modules() if isinstance(layer, nn.Conv2d | nn.Linear))
    assert count(base) - count(on_meta(name, in_channels=1)) == first.weight.numel() * 2 // 3
