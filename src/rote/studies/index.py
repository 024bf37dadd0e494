"""The index of results: the paper's figures and tables, our numbers and the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rote.errors import InputError
from rote.store import write_whole
from rote.studies.markdown import wrap_lines
from rote.studies.paper import PAPER
from rote.studies.results import name_page, restrict_record
from rote.studies.study import studies

if TYPE_CHECKING:
    from pathlib import Path

    from rote.studies.study import Record, Study

LIST = "README.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
NOT_TRAINED = "not trained yet"

Found = Mapping[str, Sequence[tuple[str, "Record"]]]
"""Maps a study's name to its presets, largest first, with their records."""


def write_list(found: Found, folder: Path) -> Path:
    """Write the index of results: the paper's figures, then the studies that it does not have."""
    lines = [
        "# Results\n",
        "Every figure and table of the paper, our number at the largest preset that has its data, "
        "and the verdict. Made by `rote study show --all --out docs/results` from the committed "
        "runs. How to reproduce them: [reproduce.md](../reproduce.md).\n",
        write_figure_table(found, folder=""),
        "\n## Studies that the paper does not have\n",
        "| study | what it shows |",
        "|---|---|",
        *(
            f"| [{name}]({name}.md) | {study.title} |"
            for name, study in studies().items()
            if not study.paper
        ),
    ]
    write_whole(folder / LIST, wrap_lines("\n".join([*lines, ""])).encode())
    return folder / LIST


def write_figures(found: Found, page: Path) -> Path:
    """Write the table of figures into a page, between its two marker lines.

    Raises:
        InputError: if the page does not have the marker lines.
    """
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(
            f"{page} does not have the lines {BEGIN} and {END}. Add them where the table belongs."
        )
    write_whole(page, f"{before}{begin}{write_figure_table(found)}\n{end}{after}".encode())
    return page


def write_figure_table(found: Found, *, folder: str = "results/") -> str:
    """Return a row for each figure and table of the paper."""
    return "\n".join(_write_rows(found, folder))


def _write_rows(found: Found, folder: str) -> Iterator[str]:
    yield "| in the paper | what it shows | the paper | here | preset | verdict | page |"
    yield "|---|---|---|---|---|---|---|"
    for label, shown in PAPER.items():
        study = find_study_of(label)
        here, preset, verdict, file = _find_ours(study, label, found)
        cells = (shown.number, shown.what, shown.reported, here, preset, verdict)
        yield f"| {' | '.join(cells)} | [{study.name}]({folder}{file}.md) |"


def find_study_of(label: str) -> Study:
    """Return the study that shows a figure of the paper."""
    return next(study for study in studies().values() if label in study.paper)


def _find_ours(study: Study, label: str, found: Found) -> tuple[str, str, str, str]:
    """Return our number, its preset, the verdict and the page to link to."""
    brief = study.get_brief(label)
    for preset, record in found.get(study.name, ()):
        part = restrict_record(record, PAPER[label], preset)
        if part is not None and brief is not None:
            ours, verdict = brief(part)
            known = "–" if study.wants is None else preset
            return ours, known, verdict or "cannot tell", name_page(study, preset)
    return NOT_TRAINED, "–", "–", study.name
