"""`rote select`: select a checkpoint, and print or copy it."""

from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.module_path import find_named
from rote.cli.options import AsJson, Question, add_question
from rote.cli.output import format_line, name_new_folders, say, say_json
from rote.cli.verdict import print_selection
from rote.errors import InputError

if TYPE_CHECKING:
    from rote.selection import Selection


@add_question
def select(
    question: Question,
    suspects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write the suspected label errors of the holdout to this file, for rules that "
            "estimate them.",
        ),
    ] = None,
    copy_to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Copy the weights of the selected checkpoint to this folder."
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also print the reasons and the confidence.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Select the checkpoint to keep without clean labels."""
    from rote.selection import DEFAULT_RULE, select as select_from, select_groups

    find_named(question.rule)
    runs, group_by = question.get_runs(), question.group_by
    chosen = {
        "rule": question.rule or DEFAULT_RULE,
        **question.read_options(),
        **question.read_rule_options(),
    }
    if group_by is None:
        selection = select_from(runs, **chosen)
        try:  # files are written even if the reader closes early, as `head` does
            with name_new_folders(suspects and suspects.parent, copy_to):
                notes = _write(selection, suspects, copy_to)
        finally:  # print the verdict even if a file cannot be written
            _print(selection, as_json=as_json, explain=explain)
        for note in notes:  # with --json, notes go to stderr
            say(format_line(note), err=as_json)
        return
    if suspects is not None:
        raise InputError(
            "--suspects cannot be combined with --group-by. Select one group with --where."
        )
    found = select_groups(runs, group_by, **chosen)
    if as_json:
        groups = {value: entry.to_json() for value, entry in found.items()}
        say_json({"group_by": group_by, "groups": groups})
    for value, entry in found.items():
        try:
            with name_new_folders(copy_to):
                notes = _write(entry, None, copy_to)
        finally:
            if not as_json:
                say(f"{group_by} = {format_line(value)}")
                print_selection(entry, explain=explain)
        for note in notes:
            say(format_line(note), err=as_json)


def _print(selection: "Selection", *, as_json: bool, explain: bool) -> None:
    if as_json:
        say_json(selection.to_json())
    else:
        print_selection(selection, explain=explain)


def _write(selection: "Selection", suspects: Path | None, copy_to: Path | None) -> list[str]:
    """Write the requested files.

    Returns:
        Notes about the written files.
    """
    from rote.reporting.output_file import write_file
    from rote.selection import Suspect, copy_checkpoint

    if suspects is not None and selection.noise_rate is None:
        raise InputError(
            f"Rule {selection.rule!r} does not estimate which labels are wrong. Use --rule "
            "posterior on runs with given_labels=."
        )
    notes = []
    if copy_to is not None:
        notes.append(f"Copied to {copy_checkpoint(selection.pick, copy_to)}")
    if suspects is not None:
        lines = [",".join(map(str, astuple(suspect))) for suspect in selection.suspects]
        names = [entry.name for entry in fields(Suspect)]
        write_file(suspects, "\n".join([",".join(names), *lines, ""]).encode())
        notes.append(f"Suspects: {suspects} ({len(lines)} samples)")
    return notes
