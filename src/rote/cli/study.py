"""`rote study`: figures and tables that anyone can make again."""

import re
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rote.cli.command import Command, CommandGroup, announce_interruption, make_app
from rote.cli.options import AsJson, DataDir, Quiet
from rote.cli.output import list_out, name_new_folders, say, say_json
from rote.cli.sweep import Address, GpusPerRun, Place, make_executor
from rote.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rote.studies import Pool, Study
    from rote.sweeps import Executor


class Studies(CommandGroup):
    """Its commands; the name of a study alone shows it."""

    def resolve_command(self, ctx: "Any", args: list[str]) -> "Any":  # noqa: ANN401, D102
        if args and self.get_command(ctx, args[0]) is None:
            from rote.studies import studies

            known = args[0] in studies() or not self._is_typo(ctx, args[0])
            args = ["show", *args] if known else args
        return super().resolve_command(ctx, args)

    def _is_typo(self, ctx: "Any", word: str) -> bool:  # noqa: ANN401
        """Return whether a word is nearly one of the commands; any other is meant to be a study."""
        return word.startswith("-") or bool(get_close_matches(word, self.list_commands(ctx)))


app = make_app(
    "study", "Make figures and tables of the paper again; `rote study NAME` shows one.", cls=Studies
)

Name = Annotated[
    str | None,
    typer.Argument(
        help="The study, or a figure of the paper such as figure-1; `rote study list` names them.",
        show_default=False,
    ),
]
Every = Annotated[bool, typer.Option("--all", help="Every study.")]
Out = Annotated[
    Path | None,
    typer.Option(
        help="A folder for NAME.md, NAME.svg and NAME.json (larger presets: NAME-medium.md …); "
        "with --all, README.md too."
    ),
]


@app.command("list", cls=Command)
def list_studies(
    plain: Annotated[bool, typer.Option("--plain", help="One name per line first.")] = False,
) -> None:
    """List the studies, and which figures of the paper they show."""
    from rote.studies import PAPER, studies

    if plain:
        say("\n".join(f"{name} {study.title}" for name, study in studies().items()))
        return
    figures = {
        name: ", ".join(PAPER[label].name for label in study.paper) or "ours"
        for name, study in studies().items()
    }
    list_out({name: f"{one.title} [{figures[name]}]" for name, one in studies().items()})


@app.command(cls=Command)
def run(
    name: Name = None,
    every: Every = False,
    preset: Annotated[str, typer.Option(help="tiny, small, medium or paper.")] = "tiny",
    store: Annotated[Path, typer.Option(help="Where runs go; finished ones are kept.")] = Path(
        "runs/studies"
    ),
    only: Annotated[
        list[str] | None,
        typer.Option("--pool", metavar="NAME", help="Only this pool; repeatable."),
    ] = None,
    executor: Annotated[Place, typer.Option(help="This machine, or a Ray cluster.")] = Place.local,
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time; one per core by default.")
    ] = None,
    address: Address = None,
    gpus_per_run: GpusPerRun = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say how many runs there are, and how many are left."),
    ] = False,
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Only read the pools that are finished.")
    ] = False,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Pack finished runs into the package, for `show` and to train the rest later.",
        ),
    ] = False,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Train what is not trained yet, and show the result; the same command resumes it."""
    from rote.studies import (
        prepare_study,
        read_pools,
        read_trained,
        record_measured,
        record_numbers,
        record_pools,
    )

    wanted = {
        study.name: [pool for pool in study.find_pools(preset) if not only or pool.name in only]
        for study in _choose_studies(name, preset, every=every)
    }
    names = {pool.name for found in wanted.values() for pool in found}
    pools = [pool for pool in read_pools(preset) if pool.name in names]
    if dry_run:
        _show_plan(pools, store)
        return
    if not no_train:
        chosen = make_executor(executor, workers, address, gpus=gpus_per_run)
        _train(pools, store, chosen, data_dir, quiet=quiet)
    recorded = record_pools(pools, store) if record else []
    tables = dict(read_trained(pools, store, needs_one=not recorded))
    _name_incomplete([pool for pool in pools if pool not in tables], store)
    found: dict[str, list[tuple[str, Any]]] = {}
    for study in _choose_studies(name, preset, every=every):
        known = {pool: tables[pool] for pool in wanted[study.name] if pool in tables}
        looked_at = prepare_study(study, known, store, data_dir)
        if looked_at or study.wants is None:
            found[study.name] = [(preset, study.measure(looked_at))]
        recorded += record_measured(study, looked_at) if record else []
        if record and study.wants is None:
            recorded.append(record_numbers(study, found[study.name][0][1]))
    for path in recorded:
        say(f"Recorded: {path} ({path.stat().st_size / 1e3:.0f} kB)", err=True)
    _show(found, out, every=every, as_json=as_json, figure=name)


@app.command(cls=Command)
def show(
    name: Name = None,
    every: Every = False,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Only this preset, also its incomplete pools; by default the largest one with "
            "complete pools.",
            show_default=False,
        ),
    ] = None,
    out: Out = None,
    index: Annotated[
        Path | None, typer.Option(help="With --all: a page for the table of the paper's figures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute a study from the packed runs: seconds; for the leaderboard, half a minute."""
    from rote.studies import Records, write_figures

    if index is not None and not every:
        raise InputError("--index needs --all: its table lists every study.")
    found: dict[str, list[tuple[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        records = Records(Path(folder))
        for study in _choose_studies(name, preset, every=every):
            try:
                packed = records.read(study, preset)
            except InputError:
                if not every:
                    raise
                say(f"Not recorded yet: {study.name}", err=True)
                continue
            measured = ((used, study.measure(tables)) for used, tables in packed)
            found[study.name] = list(measured) if every else [_take_preset(measured, name)]
        _show(found, out, every=every, as_json=as_json, figure=name)
    if index is not None:
        say(f"Written: {write_figures(found, index)}", err=True)


def _choose_studies(name: str | None, preset: str | None, *, every: bool) -> "list[Study]":
    """Return the study of that name, or every one that has pools at a preset."""
    from rote.studies import find_study, studies

    if every == (name is not None):
        raise InputError("Name one study, or pass --all, but not both.")
    if name is not None:
        return [find_study(name)]
    return [study for study in studies().values() if preset is None or study.has(preset)]


def _show_plan(pools: "list[Pool]", store: Path) -> None:
    from collections import Counter

    from rote.sweeps import Sweep

    total: Counter[str] = Counter()
    for pool in pools:
        counts = Sweep(pool.space, store / pool.name).survey()
        say(f"{pool.name:32} {_format_count(counts)}")
        total.update(counts)
    say(f"{'in all':32} {_format_count(total)}")


def _name_incomplete(pools: "list[Pool]", store: Path) -> None:
    """Say which pools are not shown, since some of their runs are not finished."""
    from rote.studies import find_finished

    for pool in pools:
        count = len(find_finished(pool, store))
        say(f"Incomplete: {pool.name} ({count} of {len(pool.specs)} runs are finished)", err=True)


def _format_count(counts: "Mapping[Any, int]") -> str:
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return f"{sum(counts.values())} runs: {said}"


def _train(
    pools: "list[Pool]",
    store: Path,
    executor: "Executor",
    data_dir: Path | None,
    *,
    quiet: bool,
) -> None:
    from rote.cli.sweep_view import open_view
    from rote.studies import run_pool

    kept = f"Finished runs are kept in {store}. Run the same command again to resume."
    for pool in pools:
        with announce_interruption(kept), open_view(quiet=quiet) as watch:
            progress = run_pool(pool, store, executor, data_dir=data_dir, watch=watch)
        for run_name, error in progress.failed.items():
            say(f"Failed: {pool.name} {run_name}: {error}", err=True)
        if progress.failed:
            raise typer.Exit(1)


def _show(
    found: "Mapping[str, list[tuple[str, Any]]]",
    out: Path | None,
    *,
    every: bool,
    as_json: bool,
    figure: str | None = None,
) -> None:
    """Print one study, or what every study found; write the files."""
    from rote.studies import as_json as written, find_study, write_list, write_page, write_result

    for name, presets in found.items():
        study = find_study(name)
        for place, (preset, measured) in enumerate(presets):
            if not every:
                shown = _select_figure(measured, figure, preset)
                say(written(measured)) if as_json else print_page(write_page(study, shown, preset))
            elif not as_json and place == 0:
                say(f"{name}: {study.finding(measured)}")
            if out is not None:
                with name_new_folders(out):
                    files = write_result(study, measured, preset, out)
                say(f"Written: {', '.join(map(str, files))}", err=True)
    if every and as_json:
        say_json({name: presets[0][1] for name, presets in found.items()}, indent=None)
    if every and out is not None:
        say(f"Written: {write_list(found, out)}", err=True)


def _take_preset(measured: "Iterator[tuple[str, Any]]", name: str | None) -> "tuple[str, Any]":
    """Return the largest preset with the data of a figure, or the largest one of all."""
    from rote.studies import PAPER, find_label, restrict_record

    first = next(measured)
    label = None if name is None else find_label(name)
    if label is None:
        return first
    shown = PAPER[label]
    for preset, record in chain([first], measured):
        if restrict_record(record, shown, preset) is not None:
            return preset, record
    say(f"{shown.number} ({shown.what}): not trained yet. The study on other data:", err=True)
    return first


def _select_figure(measured: "Any", name: str | None, preset: str) -> "Any":  # noqa: ANN401
    """Return the part of a record for one figure of the paper, if it was requested by number."""
    from rote.studies import PAPER, find_label, restrict_record

    label = None if name is None else find_label(name)
    part = None if label is None else restrict_record(measured, PAPER[label], preset)
    return measured if part is None else part


_GAP = "  "


def print_page(page: str) -> None:
    """Print a page of headings, paragraphs and tables."""
    console = Console(highlight=False)
    for block in _split_blocks(page):
        if block.startswith("|"):
            rows = [_split_cells(line) for line in block.splitlines()]
            for line in _format_table(rows[0], rows[2:], console.width):
                console.print(Text(line), soft_wrap=True)
        elif block.startswith("# "):
            console.print(Text(block.removeprefix("# "), style="bold"))
        else:
            console.print(_format_paragraph(block))
        console.print()


def _split_blocks(page: str) -> Iterator[str]:
    """Yield paragraphs and tables; pictures and their captions are left out."""
    for block in re.split(r"\n\s*\n", page.strip()):
        if not block.startswith("![") and not (block.startswith("*") and block[1:2] != "*"):
            yield block.strip()


def _format_paragraph(block: str) -> Text:
    """Keep bold words, replace code and links by their text, and refill lines."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(block.split()).replace("`", ""))
    text = Text()
    for place, part in enumerate(plain.split("**")):
        text.append(part, style="bold" if place % 2 else "")
    return text


def _format_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Aligned columns where they fit, with titles over several lines; else a block for each row."""
    longest = [max(map(len, title.split()), default=0) for title in head]
    widths = [max([longest[p], *(len(row[p]) for row in rows)]) for p in range(len(head))]
    if sum(widths) + len(_GAP) * (len(widths) - 1) <= width:
        titles = [textwrap.wrap(title, size) for title, size in zip(head, widths, strict=True)]
        height = max(map(len, titles))
        padded = [[""] * (height - len(title)) + title for title in titles]
        lines = [list(line) for line in zip(*padded, strict=True)]
        for row in (*lines, ["─" * size for size in widths], *rows):
            first = row[0].ljust(widths[0])
            others = [cell.rjust(size) for cell, size in zip(row[1:], widths[1:], strict=True)]
            yield _GAP.join([first, *others]).rstrip()
        return
    longest_title = max(map(len, head[1:]), default=0)
    for row in rows:
        yield row[0]
        for title, cell in zip(head[1:], row[1:], strict=True):
            yield f"{_GAP}{title.ljust(longest_title)}{_GAP}{cell}"


def _split_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
