"""Every architecture runs at every size, forward and backward, alone and in a batch."""

import copy
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from rote.workloads.architectures import ARCHITECTURES, build_architecture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("architectures")]

# Sizes, channels and numbers of classes, paired rather than crossed to stay fast.
SHAPES = ((8, 1, 10), (16, 3, 2), (28, 1, 7), (32, 3, 100), (64, 3, 5))
SCALES = ((64, 1.0), (8, 1.5), (8, 1.0), (64, 1.5))


def cases(settings: tuple[tuple[Any, ...], ...], *, each: int) -> Iterator[Any]:
    """Every architecture with so many of the settings, which go round; the rest is ``full``."""
    for (i, name), (j, setting) in product(enumerate(ARCHITECTURES), enumerate(settings)):
        is_first = (i + j) % len(settings) < each
        yield pytest.param(name, *setting, marks=() if is_first else pytest.mark.full)


@pytest.mark.parametrize(("name", "size", "channels", "classes"), [*cases(SHAPES, each=2)])
def test_trains_with_a_batch_of_two_and_predicts_one(
    name: str, size: int, channels: int, classes: int
) -> None:
    torch.manual_seed(0)
    model = build_architecture(
        name, num_classes=classes, in_channels=channels, image_size=size, scale=0.25
    )
    x = torch.randn(2, channels, size, size)
    logits = model(x)
    assert logits.shape == (2, classes)
    functional.cross_entropy(logits, torch.tensor([0, classes - 1])).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
    model.eval()
    assert model(x[:1]).shape == (1, classes)


@pytest.mark.parametrize(("name", "size", "scale"), [*cases(SCALES, each=1)])
def test_runs_at_full_and_larger_scale(name: str, size: int, scale: float) -> None:
    with torch.device("meta"):
        model = build_architecture(
            name, num_classes=10, in_channels=3, image_size=size, scale=scale
        )
        assert model(torch.empty(2, 3, size, size)).shape == (2, 10)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "mlp"])
def test_channels_last_gives_the_same_logits_and_is_kept(name: str) -> None:
    torch.manual_seed(0)
    model = build_architecture(
        name, num_classes=10, in_channels=3, image_size=16, scale=0.25
    ).eval()
    other = copy.deepcopy(model)
    other.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    innermost: set[int] = set()
    for layer in other.modules():
        if isinstance(layer, nn.Conv2d | nn.BatchNorm2d):
            layer.register_forward_pre_hook(lambda _, x: innermost.add(x[0].stride(1)))
    x = torch.randn(4, 3, 16, 16)
    logits = other(x.to(memory_format=torch.channels_last))
    assert innermost == {1}
    torch.testing.assert_close(logits, model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["cnn", "vgg11", "shufflenet_v2", "efficientnet_b0"])
def test_images_need_not_be_square(name: str) -> None:
    model = build_architecture(name, num_classes=3, in_channels=1, image_size=32, scale=0.25).eval()
    assert model(torch.zeros(1, 1, 12, 40)).shape == (1, 3)


def test_shuffling_interleaves_the_halves() -> None:
    from rote.workloads.architectures.shufflenet_v2 import _interleave

    first = torch.arange(3.0).reshape(1, 3, 1, 1).expand(2, 3, 4, 5)
    mixed = _interleave(first, first + 10)
    assert mixed[0, :, 0, 0].tolist() == [0, 10, 1, 11, 2, 12]


def test_skipping_samples_zeroes_whole_samples_in_train_mode_only() -> None:
    from rote.workloads.architectures.efficientnet import _SkipSamples

    torch.manual_seed(0)
    skip = _SkipSamples(0.25)
    x = torch.ones(4000, 2, 3, 3)
    skipped = skip(x).flatten(1)
    assert (skipped == skipped[:, :1]).all()
    assert sorted(set(skipped[:, 0].tolist())) == pytest.approx([0, 4 / 3])
    assert skipped.mean().item() == pytest.approx(1, abs=0.03)  # 3 deviations of 1/√12000
    assert skip.eval()(x) is x


def test_preactivation_shortcut_is_the_input_or_a_projection_of_its_activation() -> None:
    from rote.workloads.architectures.resnet import PreActivationBlock

    torch.manual_seed(0)
    x = torch.randn(2, 4, 5, 5)
    kept = PreActivationBlock(4, 4, 1)
    assert kept.shortcut is None
    nn.init.zeros_(kept.body[-1].weight)
    assert torch.equal(kept(x), x)
    projected = PreActivationBlock(4, 6, 2)
    assert projected.shortcut is not None
    nn.init.zeros_(projected.body[-1].weight)
    assert torch.equal(projected(x), projected.shortcut(projected.activate(x)))
