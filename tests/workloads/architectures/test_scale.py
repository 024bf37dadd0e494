"""`scale` widens every layer, the classifier included."""

from functools import cache

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from rote.workloads.architectures import ARCHITECTURES, build_architecture
from rote.workloads.architectures.layers import scale_width

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("architectures")]


@cache
def widths(name: str, scale: float) -> list[int]:
    """Outputs of every convolution and linear layer, in order, without the logits."""
    with torch.device("meta"):
        model = build_architecture(name, num_classes=10, in_channels=3, image_size=32, scale=scale)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    outputs = [
        layer.out_channels if isinstance(layer, nn.Conv2d) else layer.out_features
        for layer in layers
    ]
    assert outputs.pop() == 10
    head = layers[-1]
    assert isinstance(head, nn.Linear)
    return [*outputs, head.in_features]


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("scale", [0.25, 1.25])
def test_every_layer_follows_the_scale(name: str, scale: float) -> None:
    base, found = widths(name, 1.0), widths(name, scale)
    pairs = zip(base, found, strict=True)
    # Groups of 8 channels, or sums of several rounded widths, may be off by a few channels.
    assert all(abs(new - scale * old) <= max(4, 0.05 * old) for old, new in pairs)
    assert found[-1] == pytest.approx(scale * base[-1], rel=0.05)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("scale", [0.5, 1.5])
def test_half_and_one_and_a_half_change_the_classifier(name: str, scale: float) -> None:
    head = widths(name, scale)[-1]
    if name == "shufflenet_v2":  # its published variants share the last width
        assert head == 1024
    else:
        assert head == pytest.approx(scale * widths(name, 1.0)[-1], rel=0.05)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_tiny_scale_leaves_at_least_one_channel_and_runs(name: str) -> None:
    model = build_architecture(name, num_classes=10, in_channels=3, image_size=8, scale=0.01)
    assert model(torch.randn(2, 3, 8, 8)).shape == (2, 10)


def test_published_shufflenet_widths() -> None:
    assert {244 // 2, 488 // 2, 976 // 2, 2048} < set(widths("shufflenet_v2", 2.0))
    assert {176 // 2, 352 // 2, 704 // 2, 1024} < set(widths("shufflenet_v2", 1.5))


@given(
    width=st.integers(1, 4096),
    scale=st.floats(0.01, 4, allow_nan=False),
    multiple=st.integers(1, 32),
)
def test_scaled_widths_are_positive_multiples_near_the_product(
    width: int, scale: float, multiple: int
) -> None:
    found = scale_width(width, scale, multiple=multiple)
    assert found >= multiple
    assert found % multiple == 0
    assert found == multiple or abs(found - width * scale) <= multiple / 2 + 1e-9
