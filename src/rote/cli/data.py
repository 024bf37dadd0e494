"""`rote data`: list known data sets, and check whether a file can be used for training."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import typer

from rote.cli.command import Command, make_app
from rote.cli.options import AsJson, DataDir, Label, Truth
from rote.cli.output import format_line, say, say_json

_MOST_ALIKE = 3
"""The most similar columns in a row that are listed one by one."""

_EXTRA = "pip install 'rote[datasets]'"
app = make_app("data", "List datasets, and check whether a file of yours can be used.")


@app.command("list", cls=Command)
def list_sets(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the data sets that rote knows by name: where they are, or how to get them."""
    from rote.workloads import list_datasets

    sets = list_datasets(data_dir)
    if as_json:
        say_json([asdict(entry) for entry in sets])
        return
    for entry in sets:
        shape = "×".join(str(side) for side in entry.shape)
        place = entry.found or ("not here" if entry.on_hub else "not here; get it from")
        say(f"{entry.name:14} {entry.classes:>3} classes  {shape:8}  {place}")
        if entry.subset is not None:
            say(f"{'':14} a subset: {entry.subset} images")
        by_hand = f"downloaded when used ({_EXTRA}), or get it from " if entry.on_hub else ""
        for line in () if entry.found else _wrap(by_hand + entry.obtain):
            say(f"{'':14} {line}")


@app.command(cls=Command)
def check(
    path: Annotated[
        Path,
        typer.Argument(
            help="A table (.csv, .tsv, .parquet), an .npz file, or a folder: one subfolder per "
            "class, lists of images, or .npy files."
        ),
    ],
    label: Label = None,
    truth: Truth = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a file can be used for training, and show how it was read."""
    from rote.workloads import check_file

    found = check_file(path, label=label, truth=truth)
    if as_json:
        say_json(asdict(found))
    else:
        for name, what in _join_similar(found.contents).items():
            say(f"{name:24}  {what}")
        said = f"no. {format_line(' '.join(found.problems))}" if found.problems else "yes"
        say(f"can be used: {said}")
        for name, value in found.summary.items():
            say(f"{format_line(name):24}  {_describe_value(value)}")
        if found.command is not None:
            say(f"next: {found.command}")
    if found.problems:
        raise typer.Exit(1)


def _join_similar(contents: Mapping[str, str]) -> dict[str, str]:
    """Join similar columns in a row on one line, since a table may have thousands.

    Example:
        >>> _join_similar({"p0": "numbers", "p1": "numbers", "p2": "numbers", "p3": "numbers"})
        {'p0 to p3 (4 columns)': 'numbers'}
    """
    found: dict[str, str] = {}
    for what, alike in groupby(contents, key=contents.__getitem__):
        names = [format_line(name) for name in alike]
        if len(names) > _MOST_ALIKE:
            names = [f"{names[0]} to {names[-1]} ({len(names):,} columns)"]
        found |= dict.fromkeys(names, format_line(what))
    return found


def _wrap(text: str) -> list[str]:
    """Wrap text to 80 columns without breaking addresses."""
    return wrap(text, 65, break_long_words=False, break_on_hyphens=False)


def _describe_value(value: float | int | str) -> str:
    if isinstance(value, float):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else format_line(value)
