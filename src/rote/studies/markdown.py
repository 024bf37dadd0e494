"""Formatting of numbers, tables and paragraphs as Markdown."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

NOTHING = "–"
_WIDTH = 116


def format_percent(value: float | None) -> str:
    """Return a share, such as 76.2 %."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def format_points(value: float | None) -> str:
    """Return a share in percent without the unit, such as 76.2."""
    return NOTHING if value is None else f"{100 * value:.1f}"


def format_number(value: float | None) -> str:
    """Return a correlation, such as −0.77."""
    return NOTHING if value is None else f"{value:.2f}".replace("-", "−")


def capitalize(text: str) -> str:
    """Capitalize the first letter, except ζ, whose capital looks like a Z."""
    return text if text.startswith("ζ") else f"{text[0].upper()}{text[1:]}"


def count_pools(pools: Sequence[Any] | Mapping[str, Any]) -> str:
    """Return the number of pools with the noun."""
    return "1 pool" if len(pools) == 1 else f"{len(pools)} pools"


def format_interval(estimate: Sequence[float | None] | None) -> str:
    """Return a value with its interval."""
    value, low, high = [*(estimate or ()), None, None, None][:3]
    if value is None or low is None or high is None:
        return format_number(value)
    return f"{format_number(value)} ({format_number(low)} to {format_number(high)})"


def write_table(first: str, columns: Sequence[str], rows: Mapping[str, Sequence[Any]]) -> str:
    """Return a Markdown table with a row for each name; cells are formatted text."""
    return "\n".join(_write_lines(first, columns, rows))


def write_group_tables(
    title: str, groups: Sequence[str], pools: Mapping[str, Any], names: Iterable[str]
) -> str:
    """Return a table for each group of runs, with a column per pool and a row per name.

    A group that contains the same runs as one before it gets no table of its own.
    """
    parts: dict[str, str] = {}
    for group in groups:
        found = {pool: numbers[group] for pool, numbers in pools.items() if group in numbers}
        rows = {
            name: [format_interval(numbers.get(name)) for numbers in found.values()]
            for name in names
            if any(name in numbers for numbers in found.values())
        }
        if found:
            parts.setdefault(write_table(title, list(found), rows), group)
    return "\n\n".join(f"{group.capitalize()}:\n\n{table}" for table, group in parts.items())


def wrap_lines(text: str) -> str:
    """Wrap long lines; rows of tables, pictures, headings and code stay whole."""
    fill = textwrap.TextWrapper(_WIDTH, break_on_hyphens=False, break_long_words=False).fill
    bound = re.sub("`[^`\n]+`", lambda code: code[0].replace(" ", "\0"), text)
    return "\n".join(
        line if line.startswith(("|", "#", "![")) else fill(line) for line in bound.split("\n")
    ).replace("\0", " ")


def _write_lines(
    first: str, columns: Sequence[str], rows: Mapping[str, Sequence[Any]]
) -> Iterator[str]:
    yield f"| {' | '.join((first, *columns))} |"
    yield f"|{'---|' * (1 + len(columns))}"
    for name, cells in rows.items():
        yield f"| {' | '.join((name, *map(str, cells)))} |"
