"""The charts of the report: a file in this folder is a chart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rote.errors import InputError
from rote.extras import classes_in, import_named

if TYPE_CHECKING:
    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame

_NAME = re.compile("[a-z][a-z0-9_-]*")


class Chart(Protocol):
    """One chart: what it draws, as a small record, and how.

    A file in ``rote/reporting/charts`` with such a class is a new figure, and nothing else knows
    its name; ``rote report --chart package.module:Name`` puts one from anywhere onto the page.
    """

    @property
    def name(self) -> str:
        """Of its file and its place on the page: small letters, digits, dashes."""
        ...

    @property
    def title(self) -> str:
        """Above it on the page."""
        ...

    def record(self, contents: Contents) -> Any:  # noqa: ANN401
        """The few values that it draws, frozen.

        Raises:
            InputError: if the runs do not have them.
        """
        ...

    def draw(self, record: Any, frame: Frame) -> Any:  # noqa: ANN401
        """A chart of altair; ``frame`` knows its width, its colors and the checkpoints."""
        ...


CHARTS: dict[str, Chart] = {
    kind.name: kind()
    for kind in sorted(classes_in(__name__, "draw"), key=lambda kind: (kind.order, kind.name))
}
"""Those of every report, in its order."""


def find_charts(charts: Sequence[str | Chart]) -> dict[str, Chart]:
    """Charts of one's own, by name.

    Raises:
        InputError: if there is no such chart, or its name is taken, or no name.
    """
    found: dict[str, Chart] = {}
    for given in charts:
        chart = import_named(given, "chart") if isinstance(given, str) else given
        chart = chart() if isinstance(chart, type) else chart
        lacking = [name for name in ("name", "title", "record", "draw") if not hasattr(chart, name)]
        if lacking:
            raise InputError(
                f"Expected `chart` {given!r} to be a chart, got one without {', '.join(lacking)}."
            )
        if not _NAME.fullmatch(chart.name) or chart.name in (*CHARTS, *found):
            raise InputError(
                f"Expected the name of `chart` {given!r} to be of small letters, digits and "
                f"dashes, and not taken, got {chart.name!r}."
            )
        found[chart.name] = chart
    return found


def parts_of(chart: Chart, record: object, frame: Frame) -> dict[str, Any]:
    """A chart as the page places it: whole, or in parts under names of their own."""
    split: Callable[..., dict[str, Any]] | None = getattr(chart, "parts", None)
    return {chart.name: chart.draw(record, frame)} if split is None else split(record, frame)


def drawable(charts: Mapping[str, Chart], contents: Contents) -> dict[str, Chart]:
    """The charts that say something about these runs.

    Those of regions (``of_regions``) only where a rule has some, and others where ``applies`` says
    so, if they have it.
    """
    return {
        name: chart
        for name, chart in charts.items()
        if contents.shows_regions or not getattr(chart, "of_regions", False)
        if not hasattr(chart, "applies") or chart.applies(contents)
    }
