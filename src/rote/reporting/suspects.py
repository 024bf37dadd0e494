"""Suspected label errors as the page shows them: cards with a picture, a text or a row."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import CorruptRunError, InputError, MissingExtraError
from rote.extras import require
from rote.selection import find_suspects
from rote.store import LABELS_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from rote.selection import Selection, SuspectLabel, Suspicion
    from rote.store import RunTable
    from rote.workloads import SampleView

MOST_SHOWN = 20
MOST_PIXELS = 96
"""The longest side of a picture; larger ones are thinned."""

_MOST_LISTS = 4
_MOST_CELLS = 4
_LONG_TEXT = 30
_SMALL = 32
"""Pictures up to this size are stored exactly, larger ones as JPEG."""

_BYTE = 255
_HALF = 127

METHODS = {
    "aum": "Area under the margin",
    "confident_learning": "Confident learning",
    "posterior": "Posterior",
}
"""The names of methods on the page."""


@dataclass(frozen=True)
class Card:
    """What a card shows of a sample; what does not apply is empty.

    Attributes:
        picture: a data URL.
        text: a text, or the longest text of a row.
        cells: some columns of a row with their values.
    """

    picture: str = ""
    text: str = ""
    cells: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SuspectList:
    """The suspects of one method.

    Attributes:
        suspicion: all of them.
        cards: of the first samples, by sample.
    """

    suspicion: Suspicion
    cards: Mapping[int, Card] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name of the method."""
        return METHODS.get(self.suspicion.method, self.suspicion.method)

    @property
    def proposes_labels(self) -> bool:
        """Whether the method proposes a label."""
        return any(suspect.believed is not None for suspect in self.first)

    @property
    def first(self) -> tuple[SuspectLabel, ...]:
        """The suspects with a card."""
        return self.suspicion.suspects[:MOST_SHOWN]


@dataclass(frozen=True)
class SuspectLabels:
    """The suspected label errors of a report.

    Attributes:
        lists: one per method and data set; lists with proposed labels first.
        left_out: how many more lists there are.
        note: why cards have no pictures; empty if nothing is missing.
    """

    lists: tuple[SuspectList, ...] = ()
    left_out: int = 0
    note: str = ""


def collect_suspects(
    table: RunTable, workloads: Mapping[str, Mapping[str, Any]], judged: Selection | None
) -> SuspectLabels:
    """Collect the suspects of runs, with cards if their data can be found.

    Args:
        table: the runs.
        workloads: the contents of ``workload.json``, by run.
        judged: the selection of rule ``posterior``, if it applies.
    """
    try:
        found = [one for one in find_suspects(table, judged) if one.suspects]
    except InputError:
        return SuspectLabels()  # the runs have no signals to suspect labels by
    except CorruptRunError:
        return SuspectLabels(note="The recorded labels of a run are damaged: no suspects are shown")
    lists, note = [], ""
    for suspicion in found[:_MOST_LISTS]:
        shown = SuspectList(suspicion)
        run = suspicion.runs[0]
        try:
            shown = SuspectList(
                suspicion, make_cards(workloads.get(run, {}), table.paths[run], shown.first)
            )
        except (InputError, MissingExtraError) as error:
            note = str(error)
        lists.append(shown)
    lists.sort(key=lambda one: not one.proposes_labels)
    return SuspectLabels(tuple(lists), max(len(found) - _MOST_LISTS, 0), note)


def make_cards(
    workload: Mapping[str, Any], path: Path, suspects: Sequence[SuspectLabel]
) -> dict[int, Card]:
    """Make the cards of samples; the data layer finds the samples.

    Args:
        workload: the contents of ``workload.json``, which name the data.
        path: the directory of the run.
        suspects: the samples.

    Returns:
        Cards by sample; empty if the run does not name its data.

    Raises:
        InputError: if the data were moved or changed.
        MissingExtraError: if Pillow is not installed.
    """
    if "spec" not in workload:
        return {}
    from rote.workloads import view_samples

    wanted = {suspect.sample: suspect.file for suspect in suspects}
    views = view_samples(workload, path / LABELS_FILE, wanted)
    images = [view.image for view in views.values() if view.image is not None]
    low, high = _find_range(images) if images else (0.0, 1.0)
    return {sample: _make_card(view, low, high) for sample, view in sorted(views.items())}


def _make_card(view: SampleView, low: float, high: float) -> Card:
    if view.image is not None:
        return Card(picture=encode_picture(_scale(view.image, low, high)))
    if view.text:
        return Card(text=view.text)
    texts = [value for value in view.row.values() if len(value) > _LONG_TEXT]
    if texts:
        return Card(text=max(texts, key=len))
    return Card(cells=tuple(view.row.items())[:_MOST_CELLS])


def encode_picture(pixels: np.ndarray) -> str:
    """Encode bytes of shape (height, width, 1 or 3) as a data URL.

    Raises:
        MissingExtraError: if Pillow is not installed.
    """
    pillow = require("PIL.Image", extra="images")
    image = pillow.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
    kind = "PNG" if max(image.size) <= _SMALL else "JPEG"
    content = io.BytesIO()
    image.save(content, kind, optimize=True, **({"quality": 85} if kind == "JPEG" else {}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(content.getvalue()).decode()}"


def _find_range(images: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the values of black and white: 0 and 255 for bytes, unless all are dark."""
    low = min(float(np.nan_to_num(image).min()) for image in images)
    high = max(float(np.nan_to_num(image).max()) for image in images)
    return (0, _BYTE) if images[0].dtype == np.uint8 and high > _HALF else (low, high)


def _scale(image: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return an image as bytes of at most ``MOST_PIXELS`` a side, gray or RGB."""
    stride = -(-max(image.shape[:2]) // MOST_PIXELS)
    thinned = np.nan_to_num(np.atleast_3d(image)[::stride, ::stride].astype(np.float64))
    shares = (thinned - low) / max(high - low, 1e-12)
    channels = 3 if shares.shape[2] >= 3 else 1
    return (shares[..., :channels].clip(0, 1) * _BYTE).round().astype(np.uint8)
