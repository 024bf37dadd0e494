"""`rote probe`: measure ζ on the saved checkpoints of a finished training."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from rote.cli.command import announce_interruption
from rote.cli.optimizer import build_optimizer
from rote.cli.options import AsJson, Quiet
from rote.cli.output import format_line, say, say_json
from rote.cli.verdict import print_verdict
from rote.errors import InputError, MissingWeightsError, RunExistsError, quote
from rote.extras import import_named

if TYPE_CHECKING:
    from torch import Tensor, nn

    from rote.probe import Inputs
    from rote.tracking import Aftermath


def probe(
    checkpoints: Annotated[
        list[Path],
        typer.Argument(
            help="Checkpoint files of ONE run, or its folder (Hugging Face's output_dir, "
            "Lightning's version_0); sorted by number."
        ),
    ],
    model: Annotated[
        str, typer.Option(help="package.module:factory, or the name of a built-in architecture.")
    ],
    data: Annotated[
        str,
        typer.Option(
            help="Unlabeled samples, prepared as in training: .npy, .npz, .safetensors, .pt, or "
            "package.module:function. Labels that come with them serve as a noisy validation."
        ),
    ],
    classes: Annotated[int, typer.Option(help="The number of classes.")],
    train: Annotated[
        str | None,
        typer.Option(help="Samples of the training set with `labels`, for the training accuracy."),
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="A class of torch.optim, or package.module:factory.")
    ] = "SGD",
    lr: Annotated[
        float | None, typer.Option(min=0, help="Its learning rate, unless saved; 0.01 for SGD.")
    ] = None,
    samples: Annotated[int, typer.Option(help="The number of samples with random labels.")] = 128,
    seed: Annotated[int, typer.Option(help="The seed of the random labels.")] = 0,
    key: Annotated[
        str | None, typer.Option(help="The entry of the files with the weights.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="A new run directory, for `rote select` and `rote report`; or a logger: "
            "mlflow:EXPERIMENT\\[@uri], tensorboard:LOGDIR, wandb:PROJECT, "
            "package.module:Name:PLACE."
        ),
    ] = None,
    as_given: Annotated[bool, typer.Option("--as-given", help="Do not sort the files.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure ζ on the saved checkpoints of a run."""
    from rich.progress import Progress

    from rote.probe import ProbePolicy
    from rote.store import parse_targets
    from rote.tracking import probe_checkpoints, sort_checkpoints

    sys.path.insert(0, str(Path.cwd()))  # find the user's own modules
    parse_targets(out, "--out")
    files = _list_files(checkpoints)
    inputs, given = load_samples(data, "--data")
    training = None if train is None else _read_labeled(train)
    network = _build(model, inputs, classes)
    stopped = announce_interruption(_name_kept(out))
    with stopped, Progress(transient=True, disable=quiet or as_json) as bar, _name_options():
        task = bar.add_task("probing", total=len(files))
        found = probe_checkpoints(
            files if as_given else sort_checkpoints(files),
            network,
            build_optimizer(
                optimizer, network, lr=0.01 if optimizer == "SGD" and lr is None else lr
            ),
            inputs=inputs,
            num_classes=classes,
            given_labels=given,
            train=training,
            policy=ProbePolicy(batch=samples),
            seed=seed,
            save_to=out,
            key=key,
            progress=lambda _file, _reading: bar.advance(task),
        )
    if as_json:
        say_json(_make_json(found))
    else:
        _show(found, optimizer, out)


def _name_kept(out: str | None) -> str:
    if out is None:
        return "Nothing was written. Run the same command again to start over."
    return (
        f"The readings so far are kept in {format_line(out)}, where `rote select` finds them. To "
        "probe all checkpoints, choose another --out."
    )


@contextmanager
def _name_options() -> Iterator[None]:
    """Advise options instead of arguments, and treat a used directory as bad usage."""
    try:
        yield
    except RunExistsError as error:
        raise InputError(
            f"{error.problem} Choose another --out: `rote probe` cannot continue a run."
        ) from error
    except MissingWeightsError as error:
        raise MissingWeightsError(error.problem, "Name the entry with `--key`.") from error


def _list_files(checkpoints: list[Path]) -> list[Path]:
    from rote.tracking import look_into

    files: dict[Path, Path] = {}
    for path in checkpoints:
        if not path.is_file() and not path.is_dir():
            raise InputError(f"File or folder not found: {path}. Check the path.")
        inside: tuple[Path, ...] = (path,)
        if path.is_dir():
            found = look_into(path)
            inside = found.files
            if found.left_out:
                names = ", ".join(str(file) for file in found.left_out)
                say(f"Skipped files without a step number: {names}.", err=True)
        for file in inside:
            files.setdefault(file.resolve(), file)
    return list(files.values())


def _read_labeled(train: str) -> "tuple[Inputs, Tensor]":
    inputs, labels = load_samples(train, "--train")
    if labels is None:
        raise InputError(f"The samples of `--train` {train} have no `labels`. Add that array.")
    return inputs, labels


def _build(model: str, inputs: "Inputs", classes: int) -> "nn.Module":
    from rote.workloads import build_architecture

    shape = tuple(getattr(inputs, "shape", (0, 1, 1)))
    return build_architecture(
        model,
        num_classes=classes,
        in_channels=shape[1] if len(shape) > 1 else 1,
        image_size=shape[-1],
    )


def _show(found: "Aftermath", optimizer: str, out: str | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rote.interpretation import explain_susceptibility
    from rote.store import can_be_read

    console = Console()
    table = Table("step", "checkpoint", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("loss", "drop", "ζ", "ζ plain", "train"):
        table.add_column(heading, justify="right")
    for name, reading in zip(_list_names(found.checkpoints), found.readings, strict=True):
        accuracy = reading.metrics.get("train_accuracy")
        plain = reading.susceptibility_plain
        table.add_row(
            str(reading.step),
            Text(format_line(name)),
            f"{reading.loss_before:.4f}",
            f"{reading.drop:+.4f}",
            f"{reading.susceptibility:+.4f}",
            "–" if plain is None else f"{plain:+.4f}",
            "–" if accuracy is None else f"{accuracy:.1%}",
        )
    console.print(table)
    finite = sum("non_finite" not in reading.flags for reading in found.readings)
    console.print(
        f"Steps of {optimizer} with saved state and settings in {found.optimizer_states} of "
        f"{len(found.readings)} checkpoints, fresh in the others. ζ here is the mean over "
        f"{finite} checkpoints, not over all epochs.",
        highlight=False,
    )
    if meaning := explain_susceptibility(found.readings, found.start):
        console.print(f"At the last checkpoint {meaning}, as it was built.", highlight=False)
    if out is not None and can_be_read(out):
        print_verdict(out)


def _list_names(files: Sequence[Path]) -> list[str]:
    """Return labels that distinguish the files: their names, their folders', or both."""
    names = [file.name for file in files]
    if len(set(names)) == len(names):
        return names
    if len(set(names)) == 1:
        return [file.parent.name for file in files]
    return ["/".join(file.parts[-2:]) for file in files]


def _make_json(found: "Aftermath") -> dict[str, object]:
    from rote.store import encode_reading

    rows = []
    for file, reading in zip(found.checkpoints, found.readings, strict=True):
        line = encode_reading(reading)
        del line["schema"], line["kind"]
        rows.append({"checkpoint": str(file), **line})
    return {"optimizer_states": found.optimizer_states, "readings": rows}


FORMS = ".npy, .npz, .safetensors, .pt, or package.module:function"


def load_samples(address: str, option: str) -> "tuple[Inputs, Tensor | None]":
    """Read samples, and their given labels if there are any.

    A file of several arrays may have ``labels`` (or ``y``); what remains is one array, or the
    keyword arguments of the model. A function returns inputs, or a pair of inputs and labels.

    Raises:
        InputError: if there is no such file or function, or it holds no samples.
    """
    path = Path(address).expanduser()
    if not path.is_file() and ":" in address:
        function = import_named(address, option)
        try:
            found = function()
        except Exception as error:
            raise InputError(
                f"{address} (`{option}`) failed with {type(error).__name__}: {error}."
            ) from error
        return _call_function(address, found)
    from rote.store import DAMAGED_ARRAYS

    reader = _READERS.get(path.suffix)
    if reader is not None and not path.exists():
        raise InputError(f"File not found: {quote(address)} (`{option}`). Check the path.")
    if reader is None or not path.is_file():
        raise InputError(f"Expected `{option}` to be a file ({FORMS}), got {quote(address)}.")
    try:
        contents = reader(path)
    except (*DAMAGED_ARRAYS, RuntimeError) as error:
        raise InputError(f"Cannot read {path}: {error}.") from error
    return _divide(contents, path)


def _call_function(address: str, found: object) -> "tuple[Inputs, Tensor | None]":
    if isinstance(found, tuple) and len(found) == 2:
        return found
    if found is None:
        raise InputError(f"Expected {address} to return samples, got None.")
    return cast("Inputs", found), None


def _divide(contents: Any, path: Path) -> "tuple[Inputs, Tensor | None]":  # noqa: ANN401
    import torch

    if isinstance(contents, torch.Tensor):
        return _check(contents, path), None
    if not isinstance(contents, dict) or not contents:
        raise InputError(f"Expected {path} to hold arrays, got a {type(contents).__name__}.")
    labels = [contents.pop(name) for name in ("labels", "y") if name in contents]
    arrays = {name: _check(array, path) for name, array in contents.items()}
    inputs = next(iter(arrays.values())) if len(arrays) == 1 else arrays
    if labels and labels[0].is_floating_point():
        raise InputError(f"Expected the labels in {path} to be integers, got {labels[0].dtype}.")
    return inputs, labels[0].long() if labels else None


def _check(array: "Tensor", path: Path) -> "Tensor":
    import torch

    if not isinstance(array, torch.Tensor):
        raise InputError(f"Expected {path} to hold arrays, got a {type(array).__name__} in it.")
    if array.dtype == torch.float64:
        return array.float()  # NumPy's default is no network's
    if array.dtype == torch.uint8:
        raise InputError(
            f"Expected the samples in {path} to be prepared as in training, got raw bytes (uint8). "
            "Scale and normalize them first, or give a function: package.module:function."
        )
    return array


def _read_numpy(path: Path) -> "Tensor | dict[str, Tensor]":
    import numpy as np
    import torch

    with path.open("rb") as file:
        found = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return torch.from_numpy(found)
        return {name: torch.from_numpy(found[name]) for name in found.files}


def _read_safetensors(path: Path) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _read_torch(path: Path) -> object:
    import pickle

    import torch

    from rote.tracking import explain_refused

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(explain_refused(error)) from error


_READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": _read_numpy,
    ".npz": _read_numpy,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
