"""`rote demo`: train a pool of runs on noisy digits, and compare all rules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.arguments import check_choice
from rote.cli.command import announce_interruption
from rote.cli.options import Quiet
from rote.cli.output import list_out, make_progress_bar
from rote.cli.report import get_command_line
from rote.cli.verdict import print_summary
from rote.errors import RoteError
from rote.records import ZETAS

if TYPE_CHECKING:
    from rich.table import Table

    from rote.sweeps import Comparison, LocalExecutor, Progress as SweepProgress
    from rote.workloads import RunSpec


def demo(
    out: Annotated[Path, typer.Option(help="The folder of the runs.")] = Path("runs/demo"),
    epochs: Annotated[int, typer.Option(help="Epochs of each run.")] = 30,
    noise: Annotated[
        float, typer.Option(help="The share of labels that are resampled uniformly.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="The seed of data, noise and weights.")] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time; one per core by default.")
    ] = None,
    column: Annotated[str, typer.Option(help="The ζ that rules use.")] = "susceptibility",
    quiet: Quiet = False,
) -> None:
    """Train a pool of small networks on digits with noisy labels, and compare all rules."""
    from rich.console import Console

    from rote.reporting import report
    from rote.selection import RULES, describe_rule
    from rote.sweeps import LocalExecutor, compare_rules, get_run_path, make_demo_specs

    check_choice("--column", column, ZETAS)
    executor = LocalExecutor(workers)
    specs = make_demo_specs(epochs=epochs, seed=seed, noise=noise)
    console = Console()
    console.print(
        f"Training {len(specs)} networks on scikit-learn's digits, {noise:.0%} of the labels "
        f"resampled uniformly, in {out}."
    )
    with announce_interruption(
        f"The runs are saved in {out}. Run the same command again to resume."
    ):
        failed = _run(specs, out, executor, quiet=quiet).failed
    if failed:
        raise RoteError(f"{len(failed)} runs failed; the first: {next(iter(failed.values()))}")
    runs = [get_run_path(out, spec) for spec in specs]
    compared = compare_rules(runs, column=column)
    page = report(runs, out / "report.html", column=column, command=get_command_line())
    names = {rule: rule.replace("susceptibility", "ζ") for rule in compared.selections}
    list_out({name: describe_rule(RULES[rule]).explanation for rule, name in names.items()})
    console.print(_make_table(compared))
    console.print(
        f"The best of {compared.checkpoints} checkpoints has {compared.best:.1%} on clean test "
        "data (gap: points below it). Only the oracle uses clean labels."
    )
    console.print(f"Report: {page.path}", markup=False, highlight=False)
    print_summary(compared.verdict, console)


def _run(
    specs: "list[RunSpec]", out: Path, executor: "LocalExecutor", *, quiet: bool
) -> "SweepProgress":
    from rote.sweeps import Sweep

    with make_progress_bar("trained", "{task.description}", quiet=quiet) as bar:
        task = bar.add_task("", total=len(specs))

        def advance(progress: "SweepProgress", _event: object) -> None:
            names = [run.job.spec.name or "" for run in progress.running.values()]
            bar.update(task, completed=progress.done, description=" ".join(names))

        progress = Sweep(specs, out).run(executor, advance)
        bar.update(task, completed=progress.done, description="")
        return progress


def _make_table(compared: "Comparison") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from rote.formatting import format_share

    table = Table("rule", "run", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("epoch", "ζ", "train", "test", "gap"):
        table.add_column(heading, justify="right")
    for rule, selection in compared.selections.items():
        pick = selection.pick
        test = pick.test_accuracy or 0.0
        table.add_row(
            rule.replace("susceptibility", "ζ"),
            pick.run,
            str(pick.step),
            "–" if pick.susceptibility is None else f"{pick.susceptibility:.3f}",
            "–" if pick.train_accuracy is None else format_share(pick.train_accuracy, 1),
            format_share(test, 1),
            f"{100 * (compared.best - test):.1f}",
            style=_choose_style(rule, compared),
        )
    return table


def _choose_style(rule: str, compared: "Comparison") -> str | None:
    from rote.selection import RULES, describe_rule

    if rule == compared.verdict.rule:
        return "bold"
    return "dim" if describe_rule(RULES[rule]).is_baseline else None
