"""Names, a user's own factories, and every refusal of `build`."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from rote.errors import InputError
from rote.workloads.architectures import ARCHITECTURES, build_architecture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("architectures")]

SHAPE: dict[str, Any] = {"num_classes": 4, "in_channels": 1, "image_size": 8}

OWN = """
import builtins

from torch import nn

NOT_CALLABLE = 3
seen = {}


def plain(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))


def full(*, num_classes, in_channels, image_size, scale, hidden=5):
    seen.update(locals())
    return nn.Linear(hidden, num_classes)


def anything(**arguments):
    seen.update(arguments)
    return nn.Identity()


def demanding(num_classes, depth):
    return nn.Linear(depth, num_classes)


def boom(num_classes):
    return {}["depth"]


def wrong(num_classes):
    return "a network"


class Net(nn.Module):
    def __init__(self, num_classes=2):
        super().__init__()
        self.head = nn.Linear(3, num_classes)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's, importable under the returned name."""
    name = "own_networks"
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / "broken_networks.py").write_text("import a_missing_package\n")
    (tmp_path / "truncated_networks.py").write_text("net\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


@pytest.mark.parametrize("name", ["vgg", "VGG_11", "ResNet18", "mobilenetv2", "x", 3, ["cnn"]])
def test_unknown_name_lists_the_known_ones(name: Any) -> None:
    with pytest.raises(
        InputError, match="Expected `architecture` to be one of alexnet, cnn, .*got"
    ):
        build_architecture(name, **SHAPE)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("ResNet18", "resnet18"),
        ("mobilenetv2", "mobilenet_v2"),
        ("desnenet121", "densenet121"),
        ("resnext29", "resnext29_2x64d"),
    ],
)
def test_unknown_name_guesses_the_nearest(given: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"got '{given}'. Did you mean '{meant}'\\?"):
        build_architecture(given, **SHAPE)


def test_unknown_option_names_the_accepted_ones() -> None:
    with pytest.raises(
        InputError,
        match="Expected options of architecture 'cnn' to be one of width, depth, dropout, "
        "batch_norm, got 'widht'. Did you mean 'width'?",
    ):
        build_architecture("cnn", **SHAPE, widht=3)


def test_unknown_option_of_an_architecture_without_options() -> None:
    with pytest.raises(InputError, match="'dla' to be left out, as it takes none, got 'width'"):
        build_architecture("dla", **SHAPE, width=3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_classes": 1}, "Expected `num_classes` to be an integer of at least 2, got 1"),
        ({"num_classes": 2.0}, "Expected `num_classes` to be an integer of at least 2, got 2.0"),
        ({"in_channels": 0}, "Expected `in_channels` to be an integer of at least 1, got 0"),
        ({"image_size": -8}, "Expected `image_size` to be an integer of at least 1, got -8"),
        ({"image_size": (8, 8)}, r"Expected `image_size` to be .*, got \(8, 8\)"),
        ({"scale": 0}, "Expected `scale` to be a number that is positive and finite, got 0"),
        ({"scale": float("inf")}, "Expected `scale` to be .*, got inf"),
        ({"scale": float("nan")}, "Expected `scale` to be .*, got nan"),
        ({"scale": "half"}, "Expected `scale` to be .*, got 'half'"),
        ({"scale": True}, "Expected `scale` to be .*, got True"),
    ],
)
def test_wrong_shapes_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_architecture("cnn", **(SHAPE | wrong))


def test_own_factory_gets_the_arguments_it_names(own: str) -> None:
    model = build_architecture(f"{own}:plain", **SHAPE)
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 4)
    build_architecture(f"{own}:full", **SHAPE, scale=0.5, hidden=7)
    assert sys.modules[own].seen == SHAPE | {"scale": 0.5, "hidden": 7}


def test_own_factory_with_keywords_gets_everything(own: str) -> None:
    build_architecture(f"{own}:anything", **SHAPE, scale=2, flavor="sour")
    assert sys.modules[own].seen == SHAPE | {"scale": 2, "flavor": "sour"}


def test_own_class_is_a_factory(own: str) -> None:
    head = build_architecture(f"{own}:Net", **SHAPE).get_submodule("head")
    assert isinstance(head, nn.Linear)
    assert head.out_features == 4


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        (
            "no_such_module:net",
            {},
            "Cannot import 'no_such_module:net' .*: No m",
        ),
        ("broken_networks:net", {}, "Cannot import .*: No module named 'a_missing_package'"),
        ("{own}:nothing", {}, "has no 'nothing' .*`architecture`"),
        ("{own}:NOT_CALLABLE", {}, "'own_networks:NOT_CALLABLE' to be a callable, got 3"),
        ("{own}:", {}, "Expected `architecture` to read 'package.module:name', got"),
        (":net", {}, "Expected `architecture` to read 'package.module:name', got ':net'"),
        ("{own}:wrong", {}, "'own_networks:wrong' to return a torch.nn.Module, got str"),
        ("builtins:dict", {}, "'builtins:dict' to return a torch.nn.Module, got dict"),
        ("{own}:plain", {"hidden": 3}, "to be left out, as it takes none, got 'hidden'"),
        ("{own}:full", {"hiden": 3}, "to be one of hidden, got 'hiden'. Did you mean 'hidden'"),
        ("{own}:plain", {"scale": 0.5}, "Expected `scale` to be 1 for .*, got 0.5"),
        ("{own}:boom", {}, "'own_networks:boom' failed with KeyError: 'depth'"),
        (
            "truncated_networks:net",
            {},
            "Cannot import 'truncated_networks:net' .* NameError: name 'net'",
        ),
        ("{own}:demanding", {}, "cannot be called with num_classes: missing .*depth"),
    ],
)
def test_own_factory_refusals(
    own: str, address: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build_architecture(address.format(own=own), **SHAPE, **options)


def test_every_name_is_in_order_and_builds_a_module() -> None:
    assert list(ARCHITECTURES) == sorted(ARCHITECTURES)
    for name in ARCHITECTURES:
        with torch.device("meta"):
            assert isinstance(build_architecture(name, **SHAPE), nn.Module)
