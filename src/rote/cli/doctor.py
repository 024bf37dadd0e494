"""`rote doctor`: is the installation whole, and can this model be probed?"""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Annotated

import typer

from rote.cli.optimizer import build_optimizer
from rote.cli.output import say
from rote.errors import InputError, shown
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
    "datasets": "datasets",
    "mlflow": "mlflow",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "ray": "ray",
    "optuna": "optuna",
}
"""Which extra brings a package."""


def doctor(
    model: Annotated[
        str | None,
        typer.Option(help="A model to probe: a name (resnet18) or package.module:factory."),
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="Its optimizer: a class of torch.optim, or package.module:factory.")
    ] = "SGD",
    shape: Annotated[str, typer.Option(help="Shape of one input.")] = "3,32,32",
    classes: Annotated[int, typer.Option(help="How many classes.")] = 10,
) -> None:
    """Check the installation and, with --model, whether that model can be probed."""
    whole = _check_installation()
    if model is not None:
        whole = _check_model(model, optimizer, shape, classes) and whole
    if not whole:
        raise typer.Exit(1)


def _check_installation() -> bool:
    say(f"rote {__version__}")
    whole = True
    for name in CORE:
        found = _version(name)
        whole = whole and found is not None
        say(f"  {name:20} {found or 'MISSING: pip install ' + name}")
    for package, extra in EXTRAS.items():
        found = _version(package) if find_spec(package) else None
        absent = f"not installed (pip install 'rote[{extra}]')"
        say(f"  {package:20} {found or absent}")
    return whole


def _check_model(name: str, optimizer_name: str, shape: str, classes: int) -> bool:
    import torch

    from rote.tracking import examine
    from rote.workloads import build_architecture

    sides = _sides(shape)
    model = build_architecture(
        name, num_classes=classes, in_channels=sides[0], image_size=sides[-1]
    )
    optimizer = build_optimizer(optimizer_name, model)
    found = examine(model, optimizer, inputs=torch.randn(128, *sides), num_classes=classes)
    if found.reading is None:
        say(f"{name} with {optimizer_name} cannot be probed. {found.obstacle}", err=True)
        return False
    say(
        f"{name} with {optimizer_name} can be probed: loss {found.reading.loss_before:.4f} → "
        f"{found.reading.loss_after:.4f} in {found.reading.seconds:.2f} s, and nothing changed."
    )
    for remark in found.remarks:
        say(f"  {remark}")
    return True


def _sides(shape: str) -> list[int]:
    try:
        sides = [int(side) for side in shape.split(",")]
    except ValueError:
        sides = []
    if not sides or min(sides) < 1:
        raise InputError(f"Expected `--shape` to be like 3,32,32, got {shown(shape)}.")
    return sides


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
