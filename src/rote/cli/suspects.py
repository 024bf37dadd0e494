"""`rote suspects`: list suspected label errors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.options import AsJson, Runs, Where, parse_pairs
from rote.cli.output import format_line, name_new_folders, say, say_json
from rote.errors import InputError

if TYPE_CHECKING:
    from rote.selection import RankedLabel, SuspectRanking, Suspicion
    from rote.store import RunTable
    from rote.workloads import SampleView

_SHOWN = 20
_FEWEST, _MOST = 12, 60
"""How many characters of a text or a row are shown; none if there is no room."""


def suspects(
    runs: Runs,
    csv: Annotated[
        Path | None, typer.Option(help="Write the whole ranking into this file.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="List by one method alone: aum, confident_learning or posterior."
        ),
    ] = None,
    where: Where = None,
    as_json: AsJson = False,
) -> None:
    """List suspected label errors: one ranking of all samples, the most suspicious first."""
    from rote.reporting.output_file import write_file
    from rote.selection import as_csv, find_suspects, rank_suspects, read_runs
    from rote.store import check_data_unchanged

    chosen = parse_pairs("--where", "KEY=VALUE", where or ())
    table = read_runs(runs, where=chosen, comparable=by is not None)
    check_data_unchanged(table.paths.values())
    if by is None:
        _show_rankings(rank_suspects(table), table, csv, as_json=as_json)
        return
    found = [one for one in find_suspects(table) if one.method == by]
    if not found:
        raise InputError(f"The runs recorded nothing for --by {by}. Leave out --by for one list.")
    if csv is not None:
        with name_new_folders(csv.parent):
            write_file(csv, as_csv(found).encode(errors="surrogateescape"))
    if as_json:
        entries = [suspicion.to_json() for suspicion in found]
        say_json({"suspicions": entries})
        return
    for suspicion in found:
        _show(suspicion)
    listed = [suspect for one in found for suspect in one.suspects]
    if any(suspect.file is None for suspect in listed):
        say("Samples are numbered from 0 in the order of the data, below the header of a table.")
    if csv is None and any(len(one.suspects) > _SHOWN for one in found):
        say(f"Only the first {_SHOWN} of each method are shown; --csv FILE writes all.")
    if csv is not None:
        say(f"All suspects: {format_line(csv)}")


def _show_rankings(
    rankings: "Sequence[SuspectRanking]", table: "RunTable", csv: Path | None, *, as_json: bool
) -> None:
    """Print the first samples of every ranking, and write all of them."""
    from rote.reporting.output_file import write_file

    if csv is not None:
        with name_new_folders(csv.parent):
            text = "".join(ranking.to_csv() for ranking in rankings)
            write_file(csv, text.encode(errors="surrogateescape"))
    if as_json:
        say_json({"rankings": [ranking.to_json() for ranking in rankings]})
        return
    for ranking in rankings:
        _show_ranking(ranking, table)
    if any(entry.is_score for ranking in rankings for entry in ranking.suspects):
        say(
            "Training samples have a score (~) instead of a probability: the networks were trained "
            "on these labels. For probabilities, train with --folds 5."
        )
    if any(entry.file is None for ranking in rankings for entry in ranking.suspects):
        say("Samples are numbered from 0 in the order of the data, below the header of a table.")
    if csv is not None:
        say(f"The whole ranking is in {format_line(csv)}.")
    elif any(ranking.flagged > _SHOWN for ranking in rankings):
        say(f"Only the first {_SHOWN} are shown; --csv FILE writes all.")


def _show_ranking(ranking: "SuspectRanking", table: "RunTable") -> None:
    from rote.formatting import format_share

    runs = format_line(ranking.runs[0]) if len(ranking.runs) == 1 else f"{len(ranking.runs)} runs"
    say(f"{ranking.flagged} of {len(ranking.samples)} labels are suspect, by {runs}.")
    if ranking.recall is not None:
        right = "none" if ranking.precision is None else format_share(ranking.precision, 1)
        say(
            f"  Of these {right} are wrong; {format_share(ranking.recall, 1)} of all label errors "
            "are among them."
        )
    shown = ranking.suspects[:_SHOWN]
    splits = {one.split for one in ranking.samples}
    _print_table(
        {
            "sample": [format_line(one.file or str(one.sample)) for one in shown],
            # With folds, every sample is a training sample, so the column is useless.
            "split": [one.split for one in shown] if len(splits) > 1 else [],
            "label": [format_line(ranking.name_class(one.given)) for one in shown],
            "proposed": [format_line(ranking.name_class(one.proposed)) for one in shown],
            "p(wrong)": [f"{'~' if one.is_score else ''}{one.probability:.0%}" for one in shown],
            "signals": [", ".join(one.signals) for one in shown],
            "wrong": [{None: "", True: "yes", False: "no"}[one.is_wrong] for one in shown],
        },
        _read_contents(table, ranking.runs[0], shown),
    )


def _read_contents(table: "RunTable", run: str, shown: "Sequence[RankedLabel]") -> list[str]:
    """Return the beginnings of texts and rows; nothing for images, and for data out of reach."""
    data = table.read_workload(run).get("data")
    if not isinstance(data, Mapping) or data.get("inputs") == "images":
        return []
    from rote.store import LABELS_FILE
    from rote.workloads import view_samples

    wanted = {one.sample: one.file for one in shown}
    try:
        found = view_samples(table.read_workload(run), table.paths[run] / LABELS_FILE, wanted)
    except InputError:
        return []
    return [_read_content(found.get(one.sample)) for one in shown]


def _read_content(view: "SampleView | None") -> str:
    if view is None:
        return ""
    cells = ", ".join(f"{name}={value}" for name, value in view.row.items())
    return format_line(" ".join((view.text or cells).split()))


def _print_table(columns: dict[str, list[str]], contents: "Sequence[str]" = ()) -> None:
    """Print the columns that have a value, and what fits of the contents."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    known = {name: [*map(Text, cells)] for name, cells in columns.items() if any(cells)}
    if not known:
        return
    console = Console()
    used = (max(len(name), *(cell.cell_len for cell in known[name])) + 3 for name in known)
    room = min(console.width - sum(used) - 4, _MOST)
    if any(contents) and room >= _FEWEST:
        known["content"] = [*map(Text, contents)]
        for cell in known["content"]:
            cell.truncate(room, overflow="ellipsis")
    table = Table(box=SIMPLE_HEAD)
    for name in known:  # a file that is cut off cannot be found
        table.add_column(name, no_wrap=name == "sample")
    for row in zip(*known.values(), strict=True):
        table.add_row(*row)
    console.print(table)


def _show(suspicion: "Suspicion") -> None:
    """Print the number of suspects, their precision if known, and the first of them."""
    from rote.formatting import format_share

    count, runs = len(suspicion.suspects), len(suspicion.runs)
    whose = format_line(suspicion.runs[0]) if runs == 1 else f"{runs} runs"
    split = {one.split for one in suspicion.suspects}
    where = " kept out of training" if split == {"holdout"} else ""
    say(
        f"{suspicion.method}, by {whose}: {count} of {suspicion.samples} labels{where} are suspect."
    )
    if suspicion.recall is not None and suspicion.wrong is not None:
        right = "none" if suspicion.precision is None else format_share(suspicion.precision, 1)
        say(
            f"  Of these {right} are wrong (of all {format_share(suspicion.wrong, 1)}); "
            f"{format_share(suspicion.recall, 1)} of the wrong ones are found."
        )
    shown = suspicion.suspects[:_SHOWN]
    _print_table(
        {
            "sample": [format_line(one.file or str(one.sample)) for one in shown],
            "label": [format_line(suspicion.name_class(one.given)) for one in shown],
            "probably": [format_line(suspicion.name_class(one.believed)) for one in shown],
            "score": [f"{one.score:.3f}" for one in shown],
            "wrong": [{None: "", True: "yes", False: "no"}[one.is_wrong] for one in shown],
        }
    )
