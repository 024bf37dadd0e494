"""`rote clean`: a cleaned copy of the data, without or with corrected suspected labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.options import AsJson, DataDir, Runs
from rote.cli.output import name_new_folders, say, say_json, to_line

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
        typer.Option(metavar="P", help="Drop samples whose label is wrong with this probability."),
    ] = 0.5,
    relabel: Annotated[
        float,
        typer.Option(
            metavar="P", help="Relabel instead from this probability on; 2 relabels nothing."
        ),
    ] = 0.9,
    review: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write the plan into this file, to edit it by hand; if it exists, apply it.",
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write a copy of the data in which suspected label errors are dropped or relabeled.

    The list is that of `rote suspects`; it is best with folds (`rote train --folds 5`). The
    original and the holdout are never changed.
    """
    from rote.reporting.output_file import write_file
    from rote.workloads import plan_cleaning, write_cleaned

    known = review if review is not None and review.exists() else None
    plan = plan_cleaning(runs, drop=drop, relabel=relabel, review=known, data_dir=data_dir)
    if as_json:
        say_json(
            {
                "data": str(plan.data),
                "samples": plan.samples,
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
            f"Edit the column action (keep, drop, relabel) of {to_line(review)}, then run the "
            "same command again.",
            err=as_json,
        )
        return
    if out is None:
        say("Nothing was written: add --out FILE to write the cleaned copy.", err=as_json)
        return
    write_cleaned(plan, out)
    if not as_json:
        say(f"Written: {to_line(out)}; what was changed: {to_line(out)}.changes.csv.")
        say(f"Next: rote train --data {to_line(out)} --compare-with RUN")


def _show(plan: "Cleaning", *, is_reviewed: bool) -> None:
    """Print the thresholds, how many samples change, and the first of them."""
    how = (
        "by your review"
        if is_reviewed
        else f"drop from {plan.drop:g}, relabel from {plan.relabel:g} probability of a wrong label"
    )
    rate = "" if plan.noise_rate is None else f", about {plan.noise_rate:.1%} mislabeled"
    say(f"{to_line(plan.data)}: {plan.samples:,} samples{rate}.")
    if plan.has_scores:
        say(
            "Without folds, samples have scores instead of probabilities, and are only dropped. "
            "For probabilities: rote train --data FILE --folds 5."
        )
    say(
        f"Plan ({how}): drop {plan.count('drop'):,}, relabel {plan.count('relabel'):,}; the "
        f"{len(plan.holdout):,} holdout samples stay as they are."
    )
    for change in plan.changes[:_SHOWN]:
        where = to_line(change.file or str(change.sample))
        target = f"{to_line(change.given)} → {to_line(change.proposed)}"
        say(f"  {where:20}  {target:24}  {change.probability:.1%}  {change.action}")
    if len(plan.changes) > _SHOWN:
        say(f"  … and {len(plan.changes) - _SHOWN:,} more (--review FILE.csv lists all)")
