"""Options that several commands have."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli.output import list_out
from rote.errors import InputError, shown

if TYPE_CHECKING:
    import numpy as np

Runs = Annotated[
    list[str],
    typer.Argument(
        help="Run directories, folders of them (such as runs), mlflow:EXPERIMENT\\[@uri], "
        "tensorboard:LOGDIR, csv:FILE, package.module:Name:PLACE."
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="The folder of datasets; ROTE_DATA by default.")]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The labels to train on: a column of a table, or NAME of y_train_NAME in an .npz.",
        show_default="column label, y_train",
    ),
]
Truth = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column of a table that holds the right labels, if they are known.",
        show_default="label_clean, if there is one",
    ),
]
Allowed = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-import",
        metavar="MODULE",
        help="A module that the file may name (package.module:name runs its code), besides those "
        "in the file's own folder; repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]

_SHARED = "Which runs, which rule"


@dataclass(frozen=True)
class Question:
    """What is asked about runs: the options of `rote select` and `rote report`.

    The fields are the options; `asking` puts them into a command.
    """

    runs: Annotated[list[str] | None, Runs.__metadata__[0]] = None
    rule: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="NAME",
            help="The rule; `--rule help` lists them. max:COLUMN or min:COLUMN for any recorded "
            "column; package.module:Name for one of your own.",
            show_default="the strongest that the runs allow",
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="KEY=VALUE",
            help="Only runs that say this of themselves, such as data.name=digits or "
            "noise.rate=0.5 (run.json, the data, the spec); repeatable.",
        ),
    ] = None
    group_by: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="KEY",
            help="A verdict for every group of runs, such as by data.name.",
        ),
    ] = None
    noise_rate: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="W",
            help="The share of wrong labels, for rules that take it.",
        ),
    ] = None
    clean_labels: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="FILE",
            help="Labels of the holdout that are known to be right, for rules that take them: "
            "integers in .npy or text, -1 where unknown.",
        ),
    ] = None
    column: Annotated[
        str,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="COLUMN",
            help="Which ζ: susceptibility, or _relative, _plain, _plain_relative.",
        ),
    ] = "susceptibility"
    renamed: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            rich_help_panel=_SHARED,
            metavar="NAME=METRIC",
            help="Which of your metrics is which, such as train_accuracy=acc; repeatable.",
        ),
    ] = None
    per_cent: Annotated[
        bool,
        typer.Option(
            "--per-cent",
            rich_help_panel=_SHARED,
            help="Accuracies above 1 are per cent: divide them by 100.",
        ),
    ] = False

    def named_runs(self) -> list[str]:
        """The runs.

        Raises:
            InputError: if there are none.
        """
        if not self.runs:
            raise InputError("Expected runs, such as a folder of run directories, got none.")
        return self.runs

    def reading(self) -> dict[str, Any]:
        """How to read the runs, as `rote.select` and `rote.report` take it.

        Raises:
            InputError: if a pair of names is none.
        """
        return {
            "column": self.column,
            "mapping": typed_pairs("--map", "NAME=METRIC", self.renamed or ()),
            "where": typed_pairs("--where", "KEY=VALUE", self.where or ()),
            "per_cent": self.per_cent,
        }

    def rule_options(self) -> dict[str, Any]:
        """The options that were given, as a rule takes them.

        Raises:
            InputError: if a file of labels cannot be read.
        """
        file = self.clean_labels
        labels = None if file is None else read_labels(file, "--clean-labels")
        given = {"noise_rate": self.noise_rate, "clean_labels": labels}
        return {name: value for name, value in given.items() if value is not None}


def read_labels(path: Path, option: str) -> "np.ndarray":
    """Integers from ``.npy``, or from text with spaces, commas, semicolons or lines between them.

    Raises:
        InputError: if there is no such file, or anything else is in it.
    """
    import numpy as np

    from rote.store import DAMAGED_ARRAYS

    if not path.exists():
        raise InputError(
            f"Expected `{option}` to be an existing file, got {path}, which does not exist. Check "
            "the path."
        )
    if not path.is_file():
        raise InputError(
            f"Expected `{option}` to be a file of integers (.npy, or text), got "
            f"{shown(str(path))}, which is no file."
        )
    try:
        if path.suffix == ".npy":
            found = np.load(path, allow_pickle=False)
        else:
            words = re.split(r"[\s,;]+", path.read_text(encoding="utf-8").strip())
            found = np.array([int(word) for word in words], dtype=np.int64)
    except DAMAGED_ARRAYS as error:
        raise InputError(
            f"Expected `{option}` to be a file of integers (.npy, or text), got "
            f"{shown(str(path))}: {error}."
        ) from error
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            f"Expected `{option}` to hold one integer per sample of the holdout, got {found.dtype} "
            f"of shape {found.shape} in {path}."
        )
    return np.asarray(found, dtype=np.int64)


def typed_pairs(option: str, form: str, typed: Iterable[str]) -> dict[str, str]:
    """Pairs with an equals sign between them, such as ``data.name=digits``.

    Raises:
        InputError: if one is no pair, or gives a name a second time.

    Example:
        >>> typed_pairs("--map", "NAME=METRIC", ["susceptibility=zeta"])
        {'susceptibility': 'zeta'}
    """
    pairs: dict[str, str] = {}
    for pair in typed:
        name, _, value = pair.partition("=")
        if not (name and value):
            raise InputError(f"Expected `{option}` to be {form}, got {shown(pair)}.")
        if name in pairs:
            raise InputError(f"Expected `{option}` to give {shown(name)} once, got it twice.")
        pairs[name] = value
    return pairs


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of a `Question`, which is its first argument."""
    shared = signature(Question).parameters
    _, *own = signature(command).parameters.values()

    def asked(**given: Any) -> None:  # noqa: ANN401
        question = Question(**{name: given.pop(name) for name in shared})
        if question.rule == "help":
            list_rules()
        else:
            command(question, **given)

    parameters = [*shared.values(), *own]
    asked.__name__, asked.__doc__ = command.__name__, command.__doc__
    asked.__signature__ = Signature(  # type: ignore[attr-defined]
        [one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters]
    )
    asked.__annotations__ = {one.name: one.annotation for one in parameters}
    return asked


def list_rules() -> None:
    """Print the name of every rule, and what it keeps."""
    from rote.selection import FAMILIES, RULES, about

    families = {f"{prefix}:COLUMN": known for prefix, known in FAMILIES.items()}
    list_out({name: about(known).explanation for name, known in (RULES | families).items()})
