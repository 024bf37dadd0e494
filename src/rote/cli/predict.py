"""`rote predict`: classes and probabilities of new samples, by a network that rote trained."""

from pathlib import Path
from typing import Annotated

import typer

from rote.cli.options import AsJson, DataDir
from rote.cli.output import format_line, name_new_folders, say, say_json

_SHOWN = 10


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|CHECKPOINT",
            help="A run directory (its selected checkpoint is used), or a file of weights in its "
            "folder checkpoints.",
        ),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="New samples, of the kind that the network was trained on: a table, a folder, an "
            ".npz or an .npy file. Labels are not needed.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write all predictions into this CSV file.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Predict the classes of new samples with a network that `rote train` has trained."""
    from rote.reporting.output_file import write_file
    from rote.workloads import load_model

    loaded = load_model(model)
    found = loaded.predict(data, data_dir=data_dir)
    if out is not None:
        with name_new_folders(out.parent):
            write_file(out, found.to_csv().encode(errors="surrogateescape"))
    chances = found.probabilities.max(1, initial=0.0)
    if as_json:
        say_json(
            {
                "checkpoint": str(loaded.checkpoint),
                "class_names": list(found.class_names),
                "samples": list(found.names),
                "predicted": [found.class_names[label] for label in found.classes],
                "probabilities": found.probabilities.tolist(),
            }
        )
        return
    count = "1 sample" if len(found.names) == 1 else f"{len(found.names):,} samples"
    say(f"{count} predicted with {format_line(loaded.checkpoint)}.")
    names = [*map(format_line, found.names[:_SHOWN])]
    classes = [format_line(found.class_names[label]) for label in found.classes[:_SHOWN]]
    left, right = (max(map(len, cells), default=0) for cells in (names, classes))
    for name, label, chance in zip(names, classes, chances, strict=False):
        say(f"{name:{left}}  {label:{right}}  {chance:.1%}")
    if len(found.names) > _SHOWN and out is None:
        say(f"The first {_SHOWN} are shown; --out FILE.csv writes all, with all probabilities.")
    if out is not None:
        say(f"All are in {format_line(out)}.")
