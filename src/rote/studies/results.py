"""What a study found as files: a page with figure and table, and the numbers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rote.store import write_whole
from rote.studies.chart import as_svg
from rote.studies.markdown import begun, wrapped

if TYPE_CHECKING:
    from rote.studies.study import Record, Study


_EXPLAINED = "small"
"""The preset whose numbers a study's `cause` is about."""


def write_result(study: Study, record: Record, preset: str, folder: Path) -> list[Path]:
    """Write ``NAME.md``, ``NAME.json`` and, where there is a figure, ``NAME.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"md": page(study, record, preset).encode(), "json": as_json(record).encode()}
    if study.draw is not None:
        contents["svg"] = as_svg(study.draw(record))
    for kind, content in contents.items():
        write_whole(folder / f"{study.name}.{kind}", content)
    return [folder / f"{study.name}.{kind}" for kind in contents]


def as_json(record: Record) -> str:
    """Return the numbers of the study."""
    return json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def page(study: Study, record: Record, preset: str) -> str:
    """Our number beside the paper's, why they differ, the figure and the table."""
    is_explained = study.cause and (preset == _EXPLAINED or study.wants is None)
    parts = [
        f"# {begun(study.title)}",
        f"**The paper.** {study.reported}",
        f"**Here.** {study.finding(record)}",
        *([f"**Why.** {study.cause}"] if is_explained else []),
        _commands(study, preset),
        *([f"![{study.title}]({study.name}.svg)"] if study.draw is not None else []),
        study.text(record).strip(),
    ]
    return wrapped("\n\n".join(parts)) + "\n"


def _commands(study: Study, preset: str) -> str:
    today = f"Computed on {datetime.now(tz=UTC).date().isoformat()}."
    if study.wants is None:
        return (
            f"It needs no runs. {today} What is committed: `rote study show {study.name}`; from "
            f"the data that are at hand: `rote study run {study.name}`."
        )
    return (
        f"Preset `{preset}`. {today} From the committed runs: `rote study show {study.name}`; all "
        f"of it again: `rote study run {study.name} --preset {preset}`."
    )
