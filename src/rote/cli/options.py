"""Options shared by several commands."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli.output import list_out
from rote.errors import InputError, quote

if TYPE_CHECKING:
    import numpy as np

Runs = Annotated[
    list[str],
    typer.Argument(
        help="Run directories, folders of them (such as runs), mlflow:EXPERIMENT\\[@uri], "
        "tensorboard:LOGDIR, csv:FILE, package.module:Name:PLACE."
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(help="The folder of data sets; ROTE_DATA by default.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Only runs with this property, such as data.path=my.csv; repeatable.",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The given labels: a column of a table, or NAME of y_train_NAME in an .npz.",
        show_default="column label, y_train",
    ),
]
Truth = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column of a table with the true labels, if they are known.",
        show_default="label_clean, if there is one",
    ),
]
Allowed = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-import",
        metavar="MODULE",
        help="Allow the file to import this module (package.module:name runs its code), in "
        "addition to modules in the file's own folder; repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]

_SHARED = "Runs and rule"


@dataclass(frozen=True)
class Question:
    """The options of `rote select` and `rote report` about runs and rules.

    The fields are the options; `asking` adds them to a command.
    """

    runs: Annotated[list[str] | None, Runs.__metadata__[0]] = None
    rule: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="NAME",
            help="The rule; `--rule help` lists all rules. max:COLUMN or min:COLUMN for any "
            "recorded column; package.module:Name for a custom rule.",
            show_default="the strongest rule that the data allow",
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="KEY=VALUE",
            help="Only runs with this property, such as data.name=digits or noise.rate=0.5 (from "
            "run.json, the data or the spec); repeatable.",
        ),
    ] = None
    group_by: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="KEY",
            help="Give a verdict for every group of runs, such as by data.name.",
        ),
    ] = None
    noise_rate: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="W",
            help="The known share of wrong labels, for rules that use it.",
        ),
    ] = None
    clean_labels: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_SHARED,
            metavar="FILE",
            help="Clean labels of the holdout, for rules that use them: integers in .npy or text, "
            "-1 where unknown.",
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
            help="Read a metric under another name, such as train_accuracy=acc; repeatable.",
        ),
    ] = None
    percent: Annotated[
        bool,
        typer.Option(
            "--percent",
            rich_help_panel=_SHARED,
            help="Accuracies above 1 are in percent: divide them by 100.",
        ),
    ] = False

    def get_runs(self) -> list[str]:
        """Return the given runs.

        Raises:
            InputError: if there are none.
        """
        if not self.runs:
            raise InputError(
                "No runs given. Name a run directory or a folder of them, such as runs."
            )
        return self.runs

    def read_options(self) -> dict[str, Any]:
        """Return how to read the runs, as arguments of `rote.select` and `rote.report`.

        Raises:
            InputError: if a pair of names is malformed.
        """
        return {
            "column": self.column,
            "mapping": parse_pairs("--map", "NAME=METRIC", self.renamed or ()),
            "where": parse_pairs("--where", "KEY=VALUE", self.where or ()),
            "percent": self.percent,
        }

    def read_rule_options(self) -> dict[str, Any]:
        """Return the given options of the rule.

        Raises:
            InputError: if a file of labels cannot be read.
        """
        file = self.clean_labels
        labels = None if file is None else read_labels(file, "--clean-labels")
        given = {"noise_rate": self.noise_rate, "clean_labels": labels}
        return {name: value for name, value in given.items() if value is not None}


def read_labels(path: Path, option: str) -> "np.ndarray":
    """Read integers from ``.npy``, or from text separated by spaces, commas or semicolons.

    Raises:
        InputError: if the file is missing, or does not contain integers.
    """
    import numpy as np

    from rote.store import DAMAGED_ARRAYS

    if not path.exists():
        raise InputError(f"File not found: {path} (`{option}`). Check the path.")
    if not path.is_file():
        raise InputError(
            f"Expected `{option}` to be a file of integers (.npy, or text), got "
            f"{quote(str(path))}, which is not a file."
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
            f"{quote(str(path))}: {error}."
        ) from error
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            f"Expected `{option}` to hold one integer per sample of the holdout, got {found.dtype} "
            f"of shape {found.shape} in {path}."
        )
    return np.asarray(found, dtype=np.int64)


def parse_pairs(option: str, form: str, typed: Iterable[str]) -> dict[str, str]:
    """Parse pairs with an equals sign, such as ``data.name=digits``.

    Raises:
        InputError: if one is not a pair, or repeats a name.

    Example:
        >>> parse_pairs("--map", "NAME=METRIC", ["susceptibility=zeta"])
        {'susceptibility': 'zeta'}
    """
    pairs: dict[str, str] = {}
    for pair in typed:
        name, _, value = pair.partition("=")
        if not (name and value):
            raise InputError(f"Expected `{option}` to be {form}, got {quote(pair)}.")
        if name in pairs:
            raise InputError(f"`{option}` sets {quote(name)} twice. Set it once.")
        pairs[name] = value
    return pairs


def add_question(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a `Question` to a command, which gets it as its first argument."""
    shared = signature(Question).parameters
    _, *own = signature(command).parameters.values()

    def run_with_question(**given: Any) -> None:  # noqa: ANN401
        question = Question(**{name: given.pop(name) for name in shared})
        if question.rule == "help":
            list_rules()
        else:
            command(question, **given)

    parameters = [*shared.values(), *own]
    run_with_question.__name__, run_with_question.__doc__ = command.__name__, command.__doc__
    run_with_question.__signature__ = Signature(  # type: ignore[attr-defined]
        [one.replace(kind=Parameter.KEYWORD_ONLY) for one in parameters]
    )
    run_with_question.__annotations__ = {one.name: one.annotation for one in parameters}
    return run_with_question


def list_rules() -> None:
    """Print the name and the description of every rule."""
    from rote.selection import FAMILIES, RULES, describe_rule, load_installed_rules

    families = {f"{prefix}:COLUMN": known for prefix, known in FAMILIES.items()}
    rules = RULES | load_installed_rules() | families
    list_out({name: describe_rule(known).explanation for name, known in rules.items()})
