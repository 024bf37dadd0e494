"""`rote theory`: the bounds of the paper on your data, and a simulation that checks them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import BadZipFile
from zlib import error as zlib_error

import typer

from rote.cli.command import Command, make_app
from rote.cli.options import AsJson, DataDir, Quiet
from rote.cli.output import name_new_folders, say_json
from rote.errors import InputError, quote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rote.theory import BoundsTable, WidthSummary

app = make_app("theory", "Compute why good models resist memorization.")

K_TILDE_VALUES = 201

DataName = Annotated[
    str,
    typer.Option(
        help="digits, a set of `rote data list`, a table with a column label, or an .npz with "
        "x_train and y_train."
    ),
]
Eta = Annotated[float, typer.Option(help="The learning rate η, below 2 / λ_max.")]
Steps = Annotated[int, typer.Option(help="k, steps on the training labels.")]
Pair = Annotated[
    str | None, typer.Option(help="Two classes, as 3,8; by default even against odd classes.")
]
Delta = Annotated[float, typer.Option(help="δ, the probability of a value outside the bounds.")]
Seed = Annotated[
    int,
    typer.Option(
        min=0, max=2**63 - 1, metavar="INTEGER", help="The seed of samples, labels and weights."
    ),
]


@app.command(cls=Command)
def bounds(
    data: DataName = "digits",
    samples: Annotated[int, typer.Option(help="The number of samples to draw.")] = 1000,
    eta: Eta = 1e-6,
    steps: Steps = 10_000,
    noise: Annotated[str, typer.Option(help="Noise levels LNL.")] = "0,0.25,0.5,0.75,1",
    k_tilde_max: Annotated[
        int | None, typer.Option(help="The most steps on random labels; as --steps by default.")
    ] = None,
    pair: Pair = None,
    landmarks: Annotated[
        int | None, typer.Option(help="A low-rank spectrum, for many samples.")
    ] = None,
    delta: Delta = 0.05,
    seed: Seed = 0,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("theory"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute both bounds of Theorem 2 on your data: figure (SVG, PNG), numbers (CSV)."""
    import numpy as np
    from rich.console import Console

    from rote.reporting.theory_figure import save_bounds, write_captions
    from rote.theory import bounds_table

    last = steps if k_tilde_max is None else k_tilde_max
    levels, classes_of_pair = _parse_numbers(noise, "--noise"), _parse_pair(pair)
    name, x, classes = _load(data, data_dir)
    status = Console(stderr=True, quiet=quiet).status(f"Computing the bounds on {samples} samples")
    with name_new_folders(out), status:
        table = bounds_table(
            x,
            classes,
            samples=samples,
            eta=eta,
            k=steps,
            k_tilde=np.unique(np.linspace(0, last, K_TILDE_VALUES).round()),
            rng=np.random.default_rng(seed),
            noise=levels,
            delta=delta,
            pair=classes_of_pair,
            landmarks=landmarks,
        )
        files = save_bounds(table, name, out)
    notes = write_captions(table, name)
    if as_json:
        written = {kind: str(path) for kind, path in files.items()}
        values = {"data": name, "seed": seed, "notes": notes, "files": written, **asdict(table)}
        say_json(values, indent=None)
        return
    _show_bounds(table)
    for line in (*notes, *(f"Wrote {path}" for path in files.values())):
        Console().print(line, markup=False, highlight=False, soft_wrap=True)


@app.command(cls=Command)
def check(
    data: DataName = "digits",
    samples: Annotated[int, typer.Option(help="The number of samples to train on.")] = 20,
    eta: Eta = 0.1,
    steps: Steps = 100,
    k_tilde: Annotated[int, typer.Option(help="k̃, steps on random labels.")] = 50,
    widths: Annotated[
        str, typer.Option(help="Numbers m of hidden units.")
    ] = "256,512,1024,2048,4096,8192,16384",
    draws: Annotated[int, typer.Option(min=1, help="Draws of labels and weights.")] = 5,
    noise: Annotated[float, typer.Option(help="Noise level LNL of the training labels.")] = 0.5,
    kappa: Annotated[float, typer.Option(help="κ, the size of the initial weights.")] = 0.3,
    pair: Pair = None,
    delta: Delta = 0.05,
    seed: Seed = 0,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train the two-layer network itself and compare with Theorem 1, over widths.

    Exits with 1 when the gap between network and formula does not shrink.
    """
    import numpy as np

    from rote import theory

    name, x, classes = _load(data, data_dir)
    x, y, rule = _draw_samples(x, classes, samples, _parse_pair(pair), np.random.default_rng(seed))
    sizes = _parse_integers(widths, "--widths")
    with _show_progress(draws, quiet) as progress:
        records = theory.check(
            x,
            y,
            eta=eta,
            k=steps,
            k_tilde=k_tilde,
            rng=[np.random.default_rng([seed, draw]) for draw in range(draws)],
            widths=sizes,
            noise=noise,
            delta=delta,
            kappa=kappa,
            draws=draws,
            progress=progress,
        )
    summary = theory.summarize(records)
    shrinks = len(summary) < 2 or summary[-1].gap < summary[0].gap
    if as_json:
        about = {"data": name, "labels": rule, "samples": samples, "gap_shrinks": shrinks}
        rows = {"widths": [*map(asdict, summary)], "records": [*map(asdict, records)]}
        say_json(about | rows, indent=None)
    else:
        _show_check(summary, f"{samples} samples of {name}: {rule}; labels drawn {draws} times.")
    if not shrinks:
        raise typer.Exit(1)


def _load(data: str, data_dir: Path | None) -> "tuple[str, NDArray[Any], NDArray[Any]]":
    from rote.workloads import FieldError, load_arrays

    try:
        return load_arrays(data, data_dir)
    except FieldError as error:
        raise FieldError("--data", error.complaint) from error
    except (OSError, EOFError, BadZipFile, zlib_error) as error:
        raise InputError(f"Cannot read {data}: {error}.") from error


def _draw_samples(
    x: "NDArray[Any]",
    classes: "NDArray[Any]",
    samples: int,
    pair: tuple[int, int] | None,
    rng: "np.random.Generator",
) -> "tuple[NDArray[Any], NDArray[np.float64], str]":
    """Draw samples; return inputs, labels of ±1, and how the labels were made."""
    from rote.theory import binary_labels

    labels = binary_labels(classes, pair=pair)
    if not 1 <= samples <= len(labels.kept):
        raise InputError(
            f"Expected `--samples` to be between 1 and {len(labels.kept)} ({labels.rule}), "
            f"got {samples}."
        )
    chosen = rng.choice(len(labels.kept), size=samples, replace=False)
    return x[labels.kept[chosen]], labels.y[chosen], labels.rule


@contextmanager
def _show_progress(draws: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar in a terminal; yield the function to call after each draw."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    hidden = quiet or not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("Training", total=draws)
        yield lambda _: bar.advance(task)


def _parse_numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"Expected `{option}` to be numbers separated by commas, got {quote(text)}."
        ) from error


def _parse_integers(text: str, option: str) -> list[int]:
    numbers = _parse_numbers(text, option)
    if not all(number.is_integer() for number in numbers):
        raise InputError(f"Expected `{option}` to be whole numbers, got {quote(text)}.")
    return [int(number) for number in numbers]


def _parse_pair(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, *others = _parse_integers(text, "--pair")
    if len(others) != 1 or others == [first]:
        raise InputError(f"Expected `--pair` to be two classes, as 3,8, got {quote(text)}.")
    return first, others[0]


def _show_bounds(table: "BoundsTable") -> None:
    """Print the mean and both bounds at the first, the middle and the last k̃."""
    from rich.console import Console
    from rich.table import Table

    steps = sorted({row.k_tilde for row in table.rows})
    shown = (steps[0], steps[len(steps) // 2], steps[-1])
    view = Table(title="Theorem 2")
    for column in ("LNL", "k̃", "lower bound", "mean μ/2", "upper bound"):
        view.add_column(column, justify="right")
    for row in table.rows:
        if row.k_tilde in shown:
            bounds_and_mean = (row.lower, row.mu / 2, row.upper)
            view.add_row(
                f"{row.noise:g}",
                f"{row.k_tilde}",
                *(f"{value:.4f}" for value in bounds_and_mean),
                end_section=row.k_tilde == steps[-1],
            )
    Console().print(view)


def _show_check(summary: "list[WidthSummary]", about: str) -> None:
    from rich.console import Console
    from rich.table import Table

    view = Table(
        "width m",
        "trained",
        "Theorem 1",
        "gap",
        "contracts",
        "in bounds",
        title="‖f − ỹ‖ after k + k̃ steps",
    )
    for row in summary:
        view.add_row(
            str(row.width),
            f"{row.simulated:.4f}",
            f"{row.predicted:.4f}",
            f"{row.gap:.4f}",
            f"{row.contracting:.0%}",
            f"{row.inside:.0%}",
        )
    console = Console()
    console.print(view)
    for line in (about, _describe_gap(summary[0], summary[-1])):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _describe_gap(narrow: "WidthSummary", wide: "WidthSummary") -> str:
    """Describe how the gap depends on the width."""
    from rote.theory import gap_exponent

    if narrow.width == wide.width:
        return "One width alone does not show how the gap depends on the width."
    widths = f"From {narrow.width} to {wide.width} units"
    if wide.gap >= narrow.gap:
        return (
            f"{widths} the gap does not shrink. Try wider networks, or more steps: outputs of the "
            "initial weights, of size κ, fade with training and not with the width."
        )
    power = gap_exponent(narrow, wide)
    return f"{widths} the gap shrinks like m^{power:.2f}; Theorem 1 lets it vanish like m^-0.5."
