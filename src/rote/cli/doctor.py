"""`rote doctor`: check the installation, and whether a model can be probed."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from rote.cli.optimizer import build_optimizer
from rote.cli.output import format_line, say
from rote.errors import InputError, quote
from rote.version import __version__

CORE = (
    "torch",
    "numpy",
    "polars",
    "scikit-learn",
    "scipy",
    "altair",
    "vl-convert-python",
    "jinja2",
    "typer",
    "rich",
    "safetensors",
)
EXTRAS = {
    "lightning": "lightning",
    "transformers": "huggingface",
    "accelerate": "huggingface",
    "pytorch-ignite": "ignite",
    "skorch": "skorch",
    "keras": "keras",
    "fastai": "fastai",
    "datasets": "datasets",
    "pillow": "images",
    "mlflow": "mlflow",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "trackio": "trackio",
    "ray": "ray",
    "optuna": "optuna",
}
"""The extra that installs each optional package."""

_MODULES = {"pytorch-ignite": "ignite", "pillow": "PIL"}
"""What is imported of a package, where that has another name."""

_SAMPLES = 16
"""Samples of the test probe; a few suffice."""


def doctor(
    model: Annotated[
        str | None,
        typer.Option(help="A model to probe: a name (resnet18) or package.module:factory."),
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="The optimizer: a class of torch.optim, or package.module:factory.")
    ] = "SGD",
    shape: Annotated[str, typer.Option(help="The shape of one input.")] = "3,32,32",
    classes: Annotated[int, typer.Option(help="The number of classes.")] = 10,
    device: Annotated[
        str | None,
        typer.Option(help="Train on a device (cuda, mps, cpu) with and without probes; compare."),
    ] = None,
) -> None:
    """Check the installation, whether a --model can be probed, and probes on a --device."""
    sys.path.insert(0, str(Path.cwd()))  # find the user's own modules
    if device is not None:
        from rote.tracking import find_device

        find_device(device)  # before anything is printed
    missing = _check_installation()
    wrong = [f"{', '.join(missing)} missing"] if missing else []
    if model is not None and not _check_model(model, optimizer, shape, classes):
        wrong.append(f"{format_line(model)} cannot be probed")
    if device is not None and not _check_device(device, model, optimizer, shape, classes):
        wrong.append(f"probes change training on {format_line(device)}")
    if wrong:
        say(f"Problems found: {'; '.join(wrong)}. See above.")
        raise typer.Exit(1)
    able = "" if model is None else f", and {format_line(model)} can be probed"
    able += "" if device is None else f", and probes leave no trace on {format_line(device)}"
    say(f"Everything is fine: all required packages are installed{able}.")


def _check_installation() -> list[str]:
    """Print the installed packages.

    Returns:
        The required packages that are missing.
    """
    say(f"rote {__version__}")
    needed = {name: _read_version(name) for name in CORE}
    for name, found in needed.items():
        say(f"  {name:20} {found or 'MISSING: pip install ' + name}")
    for package, extra in EXTRAS.items():
        found = _read_version(package) if find_spec(_MODULES.get(package, package)) else None
        absent = f"not installed (optional: pip install 'rote[{extra}]')"
        say(f"  {package:20} {found or absent}")
    return [name for name, found in needed.items() if found is None]


def _check_model(name: str, optimizer_name: str, shape: str, classes: int) -> bool:
    import torch
    from rich.console import Console

    from rote.tracking import examine
    from rote.workloads import build_architecture

    sides = _parse_shape(shape)
    model = build_architecture(
        name, num_classes=classes, in_channels=sides[0], image_size=sides[-1]
    )
    optimizer = build_optimizer(optimizer_name, model)
    with Console(stderr=True).status(f"Probing {format_line(name)}"):
        inputs = torch.randn(_SAMPLES, *sides)
        found = examine(model, optimizer, inputs=inputs, num_classes=classes)
    if found.reading is None:
        say(f"{name} with {optimizer_name} cannot be probed. {found.obstacle}", err=True)
        return False
    say(
        f"{name} with {optimizer_name} can be probed: loss {found.reading.loss_before:.4f} → "
        f"{found.reading.loss_after:.4f} on {_SAMPLES} random inputs, and its state was restored."
    )
    for remark in found.remarks:
        say(f"  {remark}")
    return True


def _check_device(
    device: str, model_name: str | None, optimizer_name: str, shape: str, classes: int
) -> bool:
    """Print what probes do on a device, as a table to paste into an issue.

    Returns:
        Whether they leave no trace.
    """
    import torch

    from rote.tracking import check_device
    from rote.workloads import build_architecture

    options: dict[str, Any] = {}
    if model_name is not None:
        sides = tuple(_parse_shape(shape))
        size = {"num_classes": classes, "in_channels": sides[0], "image_size": sides[-1]}

        def make() -> tuple[Any, Any]:
            model = build_architecture(model_name, **size).to(device)
            return model, build_optimizer(optimizer_name, model)

        options = {"make": make, "shape": sides, "num_classes": classes}
    found = check_device(device, **options)
    what = "A small network" if model_name is None else f"{format_line(model_name)}"
    versions = [f"rote {__version__}", f"torch {torch.__version__}"]
    versions += [f"Python {platform.python_version()}", sys.platform]
    module: Any = torch.get_device_module(found.device)
    if hasattr(module, "get_device_name"):
        versions.insert(0, module.get_device_name(found.device))
    lines = ["", f"{what} on {found.device} ({', '.join(versions)}):", ""]
    lines += ["| checked | found | expected |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in found.rows()]
    say("\n".join([*lines, ""]))
    return found.is_sound


def _parse_shape(shape: str) -> list[int]:
    try:
        sides = [int(side) for side in shape.split(",")]
    except ValueError:
        sides = []
    if not sides or min(sides) < 1:
        raise InputError(f"Expected `--shape` to be like 3,32,32, got {quote(shape)}.")
    return sides


def _read_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
