"""`rote clean`: a cleaned copy of the data, without or with corrected suspected labels."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.options import AsJson, DataDir, Runs, Where, parse_pairs
from rote.cli.output import format_line, name_new_folders, say, say_json

if TYPE_CHECKING:
    from rote.workloads import Cleaning

_SHOWN = 10


def clean(
    runs: Runs,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The cleaned copy: a table, an .npz, an .npy of labels, or a folder of links. "
            "Without it the plan is shown and nothing is written."
        ),
    ] = None,
    drop: Annotated[
        float,
        typer.Option(
            metavar="P", help="Drop samples whose label is wrong with at least this probability."
        ),
    ] = 0.5,
    relabel: Annotated[
        float,
        typer.Option(
            metavar="P",
            help="Relabel samples instead if the probability is at least this; 2 relabels nothing.",
        ),
    ] = 0.9,
    review: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write the plan into this file, to edit it by hand; if it exists, apply it.",
        ),
    ] = None,
    where: Where = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write a copy of the data in which suspected label errors are dropped or relabeled.

    The list is that of `rote suspects`; it is best with folds (`rote train --folds 5`). The
    original and the holdout are never changed.
    """
    from rote.reporting.output_file import write_file
    from rote.selection import read_runs
    from rote.workloads import plan_cleaning, write_cleaned

    known = review if review is not None and review.exists() else None
    table = read_runs(
        runs, where=parse_pairs("--where", "KEY=VALUE", where or ()), comparable=False
    )
    plan = plan_cleaning(table, drop=drop, relabel=relabel, review=known, data_dir=data_dir)
    if as_json:
        say_json(
            {
                "data": str(plan.data),
                "samples": len(plan.rows),
                "holdout": len(plan.holdout),
                "noise_rate": plan.noise_rate,
                "drop": plan.count("drop"),
                "relabel": plan.count("relabel"),
                "changes": [vars(change) for change in plan.changes],
            }
        )
    else:
        _show(plan, is_reviewed=known is not None)
    if review is not None and known is None:
        with name_new_folders(review.parent):
            write_file(review, plan.to_csv().encode(errors="surrogateescape"))
        say(
            f"Edit the column action (keep, drop, relabel) of {format_line(review)}, then run the "
            "same command again.",
            err=as_json,
        )
        return
    if out is None:
        say("Nothing was written: add --out FILE to write the cleaned copy.", err=as_json)
        return
    write_cleaned(plan, out)
    if not as_json:
        say(f"Written: {format_line(out)}; what was changed: {format_line(out)}.changes.csv.")
        if out.suffix != ".npy":  # labels alone cannot be trained on
            _show_next(plan, out)


def _show_next(plan: "Cleaning", out: Path) -> None:
    """Print how to train again, and first the run to compare with, if it is missing."""
    from rote.sweeps import get_named_path

    run = plan.run or get_named_path(Path("runs"), plan.spec)
    compare = f"rote train --data {shlex.quote(str(out))} --compare-with {shlex.quote(str(run))}"
    if run.exists():
        say(f"Next: {format_line(compare)}")
        return
    original = shlex.quote(str(plan.spec.data.path))  # type: ignore[union-attr]  # it is a file
    labels = "".join(
        f" --{option} {shlex.quote(value)}"
        for option, value, usual in (
            ("label", getattr(plan.spec.data, "label", None), "label"),
            ("label", getattr(plan.spec.data, "labels", None), None),
            ("truth", getattr(plan.spec.data, "truth", None), None),
        )
        if value not in (None, usual)
    )
    say(f"Next: rote train --data {format_line(original + labels)} (the run to compare with)")
    say(f"      {format_line(compare)}")


def _show(plan: "Cleaning", *, is_reviewed: bool) -> None:
    """Print the thresholds, how many samples change, and the first of them."""
    how = (
        "by your review"
        if is_reviewed
        else f"drop from {plan.drop:.0%} on"
        + (f", relabel from {plan.relabel:.0%} on" if plan.relabel <= 1 else ", never relabel")
    )
    rate = "" if plan.noise_rate is None else f", about {plan.noise_rate:.1%} mislabeled"
    say(f"{format_line(plan.data)}: {len(plan.rows):,} samples{rate}.")
    if plan.has_scores:
        say(
            "Without folds, samples have scores instead of probabilities, and are only dropped. "
            "For probabilities: rote train --data FILE --folds 5."
        )
    say(
        f"Plan ({how}): drop {plan.count('drop'):,}, relabel {plan.count('relabel'):,}; the "
        f"{len(plan.holdout):,} holdout samples stay as they are."
    )
    shown = plan.changes[:_SHOWN]
    places = [format_line(change.file or str(change.sample)) for change in shown]
    targets = [f"{format_line(one.given)} → {format_line(one.proposed)}" for one in shown]
    left, right = (max(map(len, cells), default=0) for cells in (places, targets))
    for place, target, change in zip(places, targets, shown, strict=True):
        chance = f"{'~' if plan.has_scores else ''}{change.probability:.0%}"
        say(f"  {place:{left}}  {target:{right}}  {chance:>5}  {change.action}")
    if len(plan.changes) > _SHOWN:
        say(f"  … and {len(plan.changes) - _SHOWN:,} more (--review FILE.csv lists all)")
