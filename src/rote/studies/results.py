"""Result files of a study: a page with figures and tables, and the numbers as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rote.store import write_whole
from rote.studies.chart import as_svg
from rote.studies.markdown import capitalize, wrap_lines
from rote.studies.paper import PAPER
from rote.studies.pool import PRESETS, read_pools

if TYPE_CHECKING:
    from collections.abc import Callable

    from rote.studies.paper import Shown
    from rote.studies.study import Record, Study


_EXPLAINED = "small"
"""The preset that a study's `cause` refers to; files of other presets have its name."""


class Picture(NamedTuple):
    """A figure of a study.

    Attributes:
        name: the name of its file, without suffix.
        caption: the figure of the paper, and what it shows.
        record: the numbers to draw.
        draw: draws them, an Altair chart.
    """

    name: str
    caption: str
    record: Record
    draw: Callable[[Record], Any]


def name_page(study: Study, preset: str) -> str:
    """Return the name of a study's files at a preset, without suffix."""
    is_larger = PRESETS.index(preset) > PRESETS.index(_EXPLAINED)
    return f"{study.name}-{preset}" if is_larger else study.name


def write_result(study: Study, record: Record, preset: str, folder: Path) -> list[Path]:
    """Write ``NAME.md``, ``NAME.json``, and a ``.svg`` for every figure.

    Args:
        study: the study.
        record: its numbers.
        preset: the preset of its pools.
        folder: the folder to write to.
    """
    stem = name_page(study, preset)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        f"{stem}.md": write_page(study, record, preset).encode(),
        f"{stem}.json": as_json(record).encode(),
    }
    for picture in list_pictures(study, record, preset):
        contents[f"{picture.name}.svg"] = as_svg(picture.draw(picture.record))
    for name, content in contents.items():
        write_whole(folder / name, content)
    return [folder / name for name in contents]


def as_json(record: Record) -> str:
    """Return the numbers of the study as JSON."""
    return json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def restrict_record(record: Record, shown: Shown, preset: str) -> Record | None:
    """Return the part of a record for one figure of the paper; None if there is none."""
    if not shown.data:
        return record
    if "settings" in record:
        starts = tuple(f"{data}, " for data in shown.data)
        settings = {n: found for n, found in record["settings"].items() if n.startswith(starts)}
        return {"settings": settings} if settings else None
    about = {pool.name for pool in read_pools(preset) if shown.is_about(pool)}
    # The name of an incomplete pool is followed by the number of its runs, in brackets.
    pools = {n: of for n, of in record["pools"].items() if n.partition(" (")[0] in about}
    return {"pools": pools} if pools else None


def list_pictures(study: Study, record: Record, preset: str) -> list[Picture]:
    """Return the figures of the paper that have data, or one figure of all pools."""
    if study.draw is None or record.get("pools") == {}:
        return []
    stem = name_page(study, preset)
    suffix = stem.removeprefix(study.name)
    found: dict[tuple[Any, ...], Picture] = {}
    for label in study.paper:
        shown, draw = PAPER[label], study.get_draw(label)
        part = restrict_record(record, shown, preset)
        if part is None or draw is None:
            continue
        key = (draw, *part.get("pools", part.get("settings", {})))
        caption = f"{shown.number} of the paper. {shown.what}"
        name = f"{shown.name}{suffix}" if shown.data or label in study.views else stem
        if key in found:
            caption = f"{found[key].caption}; {caption}"
            name = found[key].name
        found[key] = Picture(name, caption, part, draw)
    return list(found.values()) or [Picture(stem, capitalize(study.title), record, study.draw)]


def write_page(study: Study, record: Record, preset: str) -> str:
    """Return our and the paper's numbers, why they differ, the figures and the tables."""
    causes = {_EXPLAINED: study.cause, "medium": study.cause_at_medium}
    cause = study.cause if study.wants is None else causes.get(preset)
    shown = list_pictures(study, record, preset)
    parts = [
        f"# {capitalize(study.title)}",
        f"**The paper.** {study.reported}",
        f"**Here.** {study.finding(record)}",
        *([f"**Why.** {cause}"] if cause else []),
        _write_commands(study, preset),
        *(f"![{picture.caption}]({picture.name}.svg)\n\n*{picture.caption}.*" for picture in shown),
        study.text(record).strip(),
    ]
    return wrap_lines("\n\n".join(parts)) + "\n"


def _write_commands(study: Study, preset: str) -> str:
    today = f"Computed on {datetime.now(tz=UTC).date().isoformat()}."
    if study.wants is None:
        needs = "It needs no runs." if study.compute is None else "It trains its own small runs."
        return (
            f"{needs} {today} From the committed numbers: `rote study show "
            f"{study.name}`; from the available data: `rote study run {study.name}`."
        )
    return (
        f"Preset `{preset}`. {today} From the committed runs: `rote study show {study.name} "
        f"--preset {preset}`; from new runs: `rote study run {study.name} --preset {preset}`."
    )
