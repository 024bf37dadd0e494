"""The axes of a sweep: lists, grids, zipped groups and random samples of values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, TypeAlias

from rote.errors import did_you_mean, quote
from rote.store import flatten_tables
from rote.workloads import FieldError

Table: TypeAlias = Mapping[str, Any]

MOST_RUNS = 1_000_000
"""Combinations in one sweep: more than anybody can wait for."""


@dataclass(frozen=True)
class Variant:
    """One place on an axis: what it changes in the spec.

    Attributes:
        changes: nest tables, as in a spec.
        label: its part of the run's name.
        origin: the table of the file that it comes from, as a dotted name; a field of ``changes``
            stands there under its own name.
    """

    changes: Table
    label: str
    origin: str


Axis: TypeAlias = tuple[Variant, ...]


def read_grid(table: object) -> list[Axis]:
    """``[grid]``: every field is an axis of its own.

    Raises:
        FieldError: if it is no table with entries, or a field of it is no list of values.
    """
    return [
        tuple(
            Variant(nest(field, value), make_label(field, value), "grid")
            for value in _read_values(entry, f"grid.{field}")
        )
        for field, entry in flatten_tables(check_table(table, "grid"))
    ]


def read_lists(table: object) -> list[Axis]:
    """``[lists.NAME.VARIANT]``: every list is an axis, its variants have names.

    Raises:
        FieldError: if it, a list or a variant is no table, or one of the first two is empty.
    """
    axes = []
    for name, entries in check_table(table, "lists").items():
        origin = f"lists.{name}"
        axes.append(
            tuple(
                Variant(
                    check_table(changes, f"{origin}.{label}", least=0), label, f"{origin}.{label}"
                )
                for label, changes in check_table(entries, origin).items()
            )
        )
    return axes


def read_zips(table: object) -> list[Axis]:
    """``[zip.NAME]``: the fields of a group go together, first with first, second with second.

    Raises:
        FieldError: if it or a group is no table with entries, a field is no list of values, or the
            lists of a group are not of one length.
    """
    axes = []
    for name, group in check_table(table, "zip").items():
        origin = f"zip.{name}"
        columns = {
            field: _read_values(entry, f"{origin}.{field}")
            for field, entry in flatten_tables(check_table(group, origin))
        }
        lengths = {field: len(values) for field, values in columns.items()}
        for field, length in lengths.items():
            if length != next(iter(lengths.values())):
                raise FieldError(
                    f"{origin}.{field}",
                    f"to have as many values as the others in its group ({lengths}), got {length}.",
                )
        rows = zip(*columns.values(), strict=True)
        axes.append(
            tuple(make_variant(dict(zip(columns, row, strict=True)), origin) for row in rows)
        )
    return axes


def make_variant(values: Table, origin: str) -> Variant:
    """Return a variant that sets several fields, given by dotted name."""
    changes: dict[str, Any] = {}
    for field, value in values.items():
        changes = overlay(changes, nest(field, value))
    label = "-".join(make_label(field, value) for field, value in values.items())
    return Variant(changes, label, origin)


def make_label(field: str, value: object) -> str:
    """Return a short label for the value of a field; numbers get the last word of its name.

    Example:
        >>> make_label("optimizer.lr", 0.1), make_label("architecture", {"name": "mlp", "scale": 2})
        ('lr0.1', 'mlp-scale2')
    """
    return "-".join(_iterate_labels(field, value))


def check_table(value: object, field: str, *, least: int = 1) -> Table:
    """Return the value if it is a table with at least ``least`` entries.

    Raises:
        FieldError: if it is something else.
    """
    if not isinstance(value, Mapping) or len(value) < least:
        raise FieldError(field, f"to be a table{' with entries' * least}, got {quote(value)}.")
    return value


def check_names(table: Table, known: tuple[str, ...], origin: str = "") -> None:
    """Refuse entries with unknown names.

    Raises:
        FieldError: if there is one.
    """
    for name in table:
        if name not in known:
            raise FieldError(
                f"{origin}{name}",
                f"is not known here.{did_you_mean(name, known)} Known: {', '.join(known)}.",
            )


def check_size(field: str, runs: int) -> None:
    """Refuse more runs than a sweep can go through.

    Raises:
        FieldError: if there are more.
    """
    if runs > MOST_RUNS:
        raise FieldError(
            field, f"makes {quote(runs)} runs, more than {MOST_RUNS:,}. Make several sweeps."
        )


def nest(field: str, value: object) -> dict[str, Any]:
    """One field as nest tables.

    Example:
        >>> nest("optimizer.lr", 0.1)
        {'optimizer': {'lr': 0.1}}
    """
    for part in reversed(field.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def overlay(values: Table, changes: Table) -> dict[str, Any]:
    """Nested tables with changes laid over them, entry by entry."""
    result = dict(values)
    for name, new in changes.items():
        old = result.get(name)
        is_deeper = isinstance(new, Mapping) and isinstance(old, Mapping)
        result[name] = overlay(old, new) if is_deeper else new  # type: ignore[arg-type]
    return result


def _read_values(entry: object, field: str) -> list[Any]:
    if not isinstance(entry, list) or not entry:
        raise FieldError(field, f"to be a list of values to try, got {quote(entry)}.")
    return entry


def _iterate_labels(field: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _iterate_labels(f"{field}.{name}", entry)
    elif isinstance(value, list | tuple):
        yield field.rpartition(".")[2] + "x".join(
            "-".join(_iterate_labels("", entry)) for entry in value
        )
    elif isinstance(value, str):
        yield value
    else:
        yield field.rpartition(".")[2] + _format_number(value)


def _format_number(value: object) -> str:
    """Return the shortest text that identifies a number: names must tell runs apart."""
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return (quote(value) if isinstance(value, int) else str(value)).lower()


_ORIGIN = "sample.draw"
_LARGEST = 2**63  # of the ends of a range; no NaN, either


def sample_axis(table: object) -> Axis:
    """Return an axis of ``count`` variants; each draws every field of ``[sample.draw]``.

    Each field has a stream of its own: another field, or a larger count, changes no draw that was
    there before.

    Raises:
        FieldError: if the table does not fit.

    Example:
        >>> axis = sample_axis({"count": 2, "draw": {"batch": {"integers": [16, 64]}}})
        >>> [variant.changes for variant in axis]
        [{'batch': 60}, {'batch': 62}]
    """
    table = check_table(table, "sample")
    check_names(table, ("count", "seed", "draw"), "sample.")
    count, seed = (
        _read_integer(table, "count", None, at_least=1),
        _read_integer(table, "seed", 0, at_least=0),
    )
    check_size("sample.count", count)
    drawn = {
        field: list(islice(_draw_values(entry, field, seed), count))
        for field, entry in flatten_tables(
            check_table(table.get("draw"), _ORIGIN), stop=tuple(_WAYS)
        )
    }
    return tuple(
        make_variant({field: values[place] for field, values in drawn.items()}, _ORIGIN)
        for place in range(count)
    )


def _draw_values(entry: object, field: str, seed: int) -> Iterator[Any]:
    where = f"{_ORIGIN}.{field}"
    ways = ", ".join(f"{{ {way} = […] }}" for way in _WAYS)
    if not isinstance(entry, dict) or len(entry) != 1 or next(iter(entry)) not in _WAYS:
        raise FieldError(where, f"to be one of {ways}, got {quote(entry)}.")
    ((way, values),) = entry.items()
    draw = _WAYS[way](values, f"{where}.{way}")
    # Of all that Random offers, only random() is promised to be the same in every Python.
    generator = Random(f"{seed} {field}")
    while True:
        yield draw(generator.random())


def _draw_choice(values: object, field: str) -> Callable[[float], Any]:
    if not isinstance(values, list) or not values:
        raise FieldError(field, f"to be a list of values, got {quote(values)}.")
    return lambda share: values[int(share * len(values))]


def _draw_uniform(values: object, field: str) -> Callable[[float], float]:
    low, high = _read_ends(values, field)
    return lambda share: _round(low + share * (high - low))


def _draw_log_uniform(values: object, field: str) -> Callable[[float], float]:
    low, high = _read_ends(values, field)
    if low <= 0:
        raise FieldError(field, f"to be two numbers above 0, got {quote(values)}.")
    return lambda share: _round(low * (high / low) ** share)


def _draw_integer(values: object, field: str) -> Callable[[float], int]:
    low, high = _read_ends(values, field)
    if not (isinstance(low, int) and isinstance(high, int)):
        raise FieldError(field, f"to be two whole numbers, got {quote(values)}.")
    return lambda share: low + int(share * (high - low + 1))


_WAYS: dict[str, Callable[[object, str], Callable[[float], Any]]] = {
    "choices": _draw_choice,
    "uniform": _draw_uniform,
    "log_uniform": _draw_log_uniform,
    "integers": _draw_integer,
}


def _read_ends(values: object, field: str) -> tuple[float, float]:
    if isinstance(values, list) and len(values) == 2 and all(map(_is_number, values)):
        low, high = values
        if low < high:
            return low, high
    raise FieldError(field, f"to be two numbers, the smaller one first, got {quote(values)}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _round(value: float) -> float:
    """Six digits: the last bits of a power differ between machines, and would make other runs."""
    return float(f"{value:.6g}")


def _read_integer(table: Table, name: str, default: int | None, *, at_least: int) -> int:
    value = table.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        given = "nothing" if value is None else quote(value)
        raise FieldError(f"sample.{name}", f"to be an integer of at least {at_least}, got {given}.")
    return value
