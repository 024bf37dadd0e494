"""The charts of the report: one file each in this folder, and those of other packages by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rote.errors import InputError, did_you_mean
from rote.extras import find_classes, import_named
from rote.plugins import find_lacking, list_plugins, load_plugin, load_plugins

if TYPE_CHECKING:
    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame

_NAME = re.compile("[a-z][a-z0-9_-]*")


class Chart(Protocol):
    """One chart: a small record of what it draws, and how to draw it.

    A file in ``rote/reporting/charts`` with such a class adds a figure to every report;
    ``rote report --chart package.module:Name`` adds one from anywhere to a page, and
    ``--chart NAME`` one that another package installs in ``rote.charts``.

    Example:
        >>> from rote.reporting.charts import CHARTS
        >>> CHARTS["regions"].name
        'regions'
    """

    @property
    def name(self) -> str:
        """The name of its file and its place on the page: lower-case letters, digits, dashes."""
        ...

    @property
    def title(self) -> str:
        """Its heading on the page."""
        ...

    def record(self, contents: Contents) -> Any:  # noqa: ANN401
        """Return the values that it draws, as a frozen record.

        Raises:
            InputError: if the runs do not have them.
        """
        ...

    def draw(self, record: Any, frame: Frame) -> Any:  # noqa: ANN401
        """Return an altair chart; ``frame`` has the width, the colors and the checkpoints."""
        ...


CHARTS: dict[str, Chart] = {
    kind.name: kind()
    for kind in sorted(find_classes(__name__, "draw"), key=lambda kind: (kind.order, kind.name))
}
"""The charts of every report, in order."""

_NEEDED = ("name", "title", "record", "draw")


def load_installed_charts() -> dict[str, Any]:
    """Return the charts of other packages, by their entry point in ``rote.charts``.

    Those that cannot be imported are left out with a warning.
    """
    return load_plugins("charts", CHARTS, _find_fault)


def _find_fault(chart: object, name: str) -> str | None:
    return find_lacking(chart, name, _NEEDED, methods=("record", "draw"))


def _find_by_name(name: str) -> Any:  # noqa: ANN401  # a chart or its class
    if ":" in name:
        return import_named(name, "chart")
    if name in (installed := list_plugins("charts", CHARTS)):
        return load_plugin("charts", name, _find_fault)
    known = f"one of {', '.join(installed)} or " if installed else ""
    raise InputError(
        f"Expected `chart` to be {known}package.module:Name, got {name!r}."
        f"{did_you_mean(name, installed)}"
    )


def _make(kind: type[Any]) -> Any:  # noqa: ANN401
    try:
        return kind()
    except TypeError as error:  # such as an argument that is missing
        raise InputError(f"Chart {kind.__name__!r} cannot be made: {error}.") from error


def find_charts(charts: Sequence[str | Chart]) -> dict[str, Chart]:
    """Find custom charts, by name.

    Raises:
        InputError: if a chart is not found or incomplete, or its name is invalid or taken.
    """
    found: dict[str, Chart] = {}
    for given in charts:
        chart = _find_by_name(given) if isinstance(given, str) else given
        chart = _make(chart) if isinstance(chart, type) else chart
        lacking = [name for name in _NEEDED if not hasattr(chart, name)]
        if lacking:
            raise InputError(f"`chart` {given!r} is not a chart: it lacks {', '.join(lacking)}.")
        if not _NAME.fullmatch(chart.name) or chart.name in (*CHARTS, *found):
            raise InputError(
                f"Expected the name of `chart` {given!r} to be of small letters, digits and "
                f"dashes, and not taken, got {chart.name!r}."
            )
        found[chart.name] = chart
    return found


def split_chart(chart: Chart, record: object, frame: Frame) -> dict[str, Any]:
    """Return the parts of a chart by their place on the page."""
    split: Callable[..., dict[str, Any]] | None = getattr(chart, "parts", None)
    return {chart.name: chart.draw(record, frame)} if split is None else split(record, frame)


def find_drawable(charts: Mapping[str, Chart], contents: Contents) -> dict[str, Chart]:
    """Return the charts that apply to these runs.

    Charts with ``of_regions`` need a rule with regions; ``applies``, if defined, decides otherwise.
    """
    return {
        name: chart
        for name, chart in charts.items()
        if contents.shows_regions or not getattr(chart, "of_regions", False)
        if not hasattr(chart, "applies") or chart.applies(contents)
    }
