"""`rote train`: train and track one run, given a spec or a data file."""

import shlex
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.command import announce_interruption
from rote.cli.module_path import find_modules_in
from rote.cli.options import Allowed, DataDir, Label, Quiet, Truth
from rote.cli.output import make_progress_bar, say
from rote.cli.verdict import print_verdict
from rote.errors import DataChangedError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rote.records import Reading
    from rote.workloads import RunSpec, TrainedRun


def train(
    spec: Annotated[
        Path | None, typer.Argument(help="The run as a TOML file; optional with --data.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The data to train on, instead of those in the spec: a table (.csv, .tsv, "
            ".parquet), an .npz, a folder with one subfolder per class, or a name from "
            "`rote data list`.",
        ),
    ] = None,
    label: Label = None,
    truth: Truth = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="The seed of weights and batches, instead of the spec's. A second seed on the "
            "same data gives the verdict better evidence."
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            min=2,
            help="Train K runs, so that each sample is held out once: the best evidence for rote "
            "suspects, at K times the cost.",
        ),
    ] = None,
    compare_with: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Train like this run on data that `rote clean` wrote, and compare both on the "
            "run's holdout, which is never cleaned.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's directory; runs/NAME-… by default.")
    ] = None,
    allowed: Allowed = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Train, track and save one run; the same command resumes it if it was interrupted.

    It tells you when ζ has doubled and when the run begins to memorize wrong labels.
    """
    from rote.sweeps import get_named_path
    from rote.workloads import AllowedImports, locate_errors

    if compare_with is None:
        described = _find_spec(spec, data, label, truth, data_dir)
    else:
        is_described = any(given is not None for given in (spec, label, truth))
        described = _find_spec_to_compare(
            compare_with, data, is_described=is_described, data_dir=data_dir
        )
    described = described if seed is None else replace(described, seed=seed)
    where = nullcontext if spec is None else partial(locate_errors, spec)
    with where():
        base = Path.cwd() if spec is None else spec.absolute().parent
        find_modules_in(base)
        AllowedImports(tuple(allowed or ()), base).check(described)
        path = out or get_named_path(Path("runs"), described)
        if folds is not None:
            path = out or path.with_name(f"{path.name}-folds{folds}")
    with where():
        done, path = _train_visibly(
            described, path, folds, data_dir, quiet=quiet, is_fixed=bool(out)
        )
    if done[-1].model is None:
        say("This run has already finished on the same data: nothing was trained.")
    for remark in done[-1].description["data"].get("remarks", ()):
        say(f"Note: {remark}")
    if folds is not None:
        say(f"Saved in {path}: {folds} runs, by which every sample was held out once.")
        say(f"Next: rote clean {shlex.quote(str(path))}")
        return
    say(f"Saved in {path}." + (f" Edit {path / 'spec.toml'} to change it." if spec is None else ""))
    print_verdict(path)
    if compare_with is not None:
        from rote.workloads import compare_on_holdout

        say(str(compare_on_holdout(compare_with, path)))


def _find_spec_to_compare(
    run: Path, data: str | None, *, is_described: bool, data_dir: Path | None
) -> "RunSpec":
    """Return the spec of a run, on cleaned data and with the run's own holdout.

    Raises:
        InputError: if more than the data are given.
    """
    from rote.workloads import make_spec_to_compare

    if data is None or is_described:
        raise InputError(
            "--compare-with takes the settings and the columns from the run. Add --data FILE, "
            "which `rote clean` wrote, and leave out SPEC, --label and --truth."
        )
    return make_spec_to_compare(run, data, data_dir=data_dir)


def _train_visibly(
    spec: "RunSpec",
    path: Path,
    folds: int | None,
    data_dir: Path | None,
    *,
    quiet: bool,
    is_fixed: bool,
) -> "tuple[Sequence[TrainedRun], Path]":
    """Train with a progress bar; edited data go into a directory of their own, unless it is fixed.

    Returns:
        The run, or one per fold, and where it is.
    """
    from rote.workloads import train, train_folds

    kept = f"The run is saved in {path}. Run the same command again to resume it."
    with announce_interruption(kept), make_progress_bar("{task.description}", quiet=quiet) as bar:
        task = bar.add_task("epoch", total=spec.epochs * (folds or 1))

        def show_progress(reading: "Reading") -> None:
            place = {"completed": reading.step} if folds is None else {"advance": spec.probe.every}
            bar.update(task, description=describe_reading(reading), **place)  # type: ignore[arg-type]
            if reading.note and not quiet and folds is None:
                bar.console.print(f"step {reading.step}: {reading.note}", highlight=False)

        def start(place: Path) -> "Sequence[TrainedRun]":
            if folds is not None:
                return train_folds(spec, place, folds, data_dir=data_dir, progress=show_progress)
            return [train(spec, place, data_dir=data_dir, progress=show_progress)]

        try:
            return start(path), path
        except DataChangedError as error:
            if is_fixed:
                raise
            beside = path.with_name(f"{path.name}-{error.content[:6]}")
            say(f"{error.problem} Training a new run beside it, in {beside}.")
            return start(beside), beside


def describe_reading(reading: "Reading") -> str:
    """Describe a reading for the progress bar: ζ, training and noisy validation accuracy."""
    parts = [f"ζ {reading.susceptibility:.4f}"]
    known = {
        "train": reading.metrics.get("train_accuracy"),
        "noisy validation": reading.validation_accuracy,
    }
    parts += [f"{name} {value:.1%}" for name, value in known.items() if value is not None]
    return "  ".join(parts)


def _find_spec(
    spec: Path | None,
    data: str | None,
    label: str | None,
    truth: str | None,
    data_dir: Path | None,
) -> "RunSpec":
    """Return the run of a spec, of a data file, or of a spec with other data.

    Raises:
        InputError: if neither a spec nor data are given.
    """
    from rote.workloads import RunSpec, make_data_section, suggest_spec

    if data is None:
        if spec is None or label is not None or truth is not None:
            raise InputError(
                "--label and --truth need --data FILE."
                if spec
                else "Nothing to train. Name a spec (rote train SPEC.toml) or data (rote train "
                "--data FILE)."
            )
        return RunSpec.from_toml(spec)
    if spec is None:
        return suggest_spec(data, label=label, truth=truth, data_dir=data_dir)
    return replace(RunSpec.from_toml(spec), data=make_data_section(data, label=label, truth=truth))
