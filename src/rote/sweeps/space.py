"""The search space: a file that stands for many runs."""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import islice, product
from pathlib import Path
from random import Random
from string import Formatter
from typing import Any, TypeAlias

from rote.errors import InputError, did_you_mean, quote
from rote.store import flatten_tables
from rote.workloads import FieldError, RunSpec, locate_errors, read_toml

Table: TypeAlias = Mapping[str, Any]

MOST_RUNS = 1_000_000
"""The most combinations in one sweep."""

_TABLES = ("name", "base", "lists", "zip", "grid", "sample", "exclude")
_ORIGIN = "sample.draw"
_LARGEST = 2**63  # of the ends of a range; no NaN, either


@dataclass(frozen=True)
class Variant:
    """One value on an axis, with the fields of the spec that it changes.

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


@dataclass(frozen=True)
class Exclusion:
    """``[exclude.NAME]`` leaves out every run whose fields all have the given values.

    Attributes:
        name: of the table.
        conditions: the values that a field may have, by dotted name.
    """

    name: str
    conditions: tuple[tuple[str, tuple[Any, ...]], ...]

    def covers(self, values: Table) -> bool:
        """Return whether a run is left out, by its spec as nested tables."""
        return all(_fulfills(values, field, allowed) for field, allowed in self.conditions)


@dataclass(frozen=True)
class SearchSpace:
    """Many runs, described together; every combination of one variant per axis is a run.

    Iterating gives the specs one by one, always the same in the same order. A run that several
    combinations describe comes once. An exclusion that leaves out nothing is an error, found when
    all combinations have been looked at.

    Attributes:
        base: the fields that all runs share, as in a spec.
        axes: the varying fields; the last axis varies fastest.
        excluded: the combinations to leave out.
        name: the prefix of run names, or a pattern such as ``{architecture.name}-{seed}``.
        file: the file of the space, for messages.
        check: raises a ``FieldError`` for a run that is not wanted.

    Example:
        >>> space = SearchSpace.from_dict({"grid": {"seed": [0, 1], "optimizer":
        ...     {"name": ["sgd", "adam"], "lr": [0.1]}}})
        >>> [spec.name for spec in space]
        ['seed0-sgd-lr0.1', 'seed0-adam-lr0.1', 'seed1-sgd-lr0.1', 'seed1-adam-lr0.1']
    """

    base: Table
    axes: Sequence[Axis] = ()
    excluded: tuple[Exclusion, ...] = ()
    name: str | None = None
    file: Path | None = None
    check: Callable[[RunSpec], None] | None = None

    @classmethod
    def from_toml(cls, path: str | Path) -> "SearchSpace":
        """Read a file.

        Raises:
            InputError: naming file, line and field, what is expected and what is there.
        """
        path = Path(path)
        with locate_errors(path):
            values = read_toml(path)
            return replace(cls.from_dict(values, folder=path.parent), file=path)

    @classmethod
    def from_dict(cls, values: Table, *, folder: Path | None = None) -> "SearchSpace":
        """Make a space from nested tables.

        Args:
            values: as in a file.
            folder: from where the path of a base spec counts.

        Raises:
            FieldError: if a field is unknown, missing, or does not fit.
            InputError: if the base is another file, and that is wrong.
        """
        check_names(values, _TABLES)
        name = values.get("name")
        if name is not None and not isinstance(name, str):
            raise FieldError("name", f"to be text, got {quote(name)}.")
        _check_pattern(name or "")
        axes = [
            *(read_lists(values["lists"]) if "lists" in values else ()),
            *(read_zips(values["zip"]) if "zip" in values else ()),
            *(read_grid(values["grid"]) if "grid" in values else ()),
            *([sample_axis(values["sample"])] if "sample" in values else ()),
        ]
        _check_apart(axes)
        check_size("grid" if "grid" in values else "lists", math.prod(map(len, axes)))
        base = _read_base(values.get("base", {}), folder or Path())
        excluded = _read_exclusions(values["exclude"]) if "exclude" in values else ()
        return cls(base, axes, excluded, name)

    def __iter__(self) -> Iterator[RunSpec]:
        seen: set[str] = set()
        used: set[str] = set()
        for variants in product(*self.axes):
            with self._locate_errors():
                spec = self._make_spec(variants, used)
            if spec is not None and spec.identity not in seen:
                seen.add(spec.identity)
                yield spec
        with self._locate_errors():
            self._check_used(used)

    def _locate_errors(self) -> AbstractContextManager[None]:
        """Errors inside of the block tell the line, if there is a file."""
        return nullcontext() if self.file is None else locate_errors(self.file)

    def _make_spec(self, variants: Sequence[Variant], used: set[str]) -> RunSpec | None:
        """Return the run of one combination, or None if it is excluded."""
        values = _combine(self.base, variants)
        try:
            spec = RunSpec.from_dict(values)
            if self.check is not None:
                self.check(spec)
        except FieldError as error:
            # Invalid combinations may be excluded for that reason.
            if self._is_excluded(values, used):
                return None
            raise _move_error(error, variants) from error
        if self.excluded and self._is_excluded(spec.to_dict(), used):
            return None
        return replace(spec, name=self._make_name(spec, variants))

    def _is_excluded(self, values: Table, used: set[str]) -> bool:
        covering = [entry.name for entry in self.excluded if entry.covers(values)]
        used.update(covering)
        return bool(covering)

    def _make_name(self, spec: RunSpec, variants: Sequence[Variant]) -> str | None:
        name = self.name or spec.name
        if name is None or "{" not in name:
            parts = [name, *(variant.label for variant in variants)]
            return "-".join(part for part in parts if part) or None
        try:
            return name.format(**{entry.name: getattr(spec, entry.name) for entry in fields(spec)})
        except (LookupError, AttributeError, ValueError, TypeError) as error:
            raise FieldError(
                "name",
                f"to be a pattern of fields that every run has, such as "
                f"{{architecture.name}}-{{seed}}, got {quote(name)} ({error}).",
            ) from error

    def _check_used(self, used: set[str]) -> None:
        for entry in self.excluded:
            if entry.name not in used:
                raise FieldError(
                    f"exclude.{entry.name}",
                    "excludes no run. Check the names and values of its fields, or remove it.",
                )


def _check_pattern(name: str) -> None:
    """Refuse patterns that make names without end, or look where no field is."""
    try:
        parts = list(Formatter().parse(name))
    except ValueError:
        return  # reported when the first run is named
    for _, field, form, _ in parts:
        if re.search(r"\d{3}|[{]", form or "") or re.search(r"(^|\.)_", field or ""):
            raise FieldError(
                "name",
                f"to be a pattern of fields, with widths below 100, got {quote(name)}.",
            )


def _read_base(value: object, folder: Path) -> Table:
    if isinstance(value, str):
        path = folder / value
        if not os.path.isfile(path):  # noqa: PTH113  # unlike pathlib's, it takes any name
            raise FieldError("base", f"to be a table or the file of a spec, got {quote(value)}.")
        return RunSpec.from_toml(path).to_dict()
    return check_table(value, "base", least=0)


def _read_exclusions(table: object) -> tuple[Exclusion, ...]:
    return tuple(
        Exclusion(
            name,
            tuple(
                (field, tuple(value) if isinstance(value, list) else (value,))
                for field, value in flatten_tables(check_table(conditions, f"exclude.{name}"))
            ),
        )
        for name, conditions in check_table(table, "exclude").items()
    )


def _fulfills(values: Table, field: str, allowed: tuple[Any, ...]) -> bool:
    if _look_up(values, field) in allowed:
        return True
    # `architecture = "cnn"` says the same as `architecture.name = "cnn"`
    tag = RunSpec.tag_of(field)
    return tag is not None and _look_up(values, f"{field}.{tag}") in allowed


def _look_up(values: Table, field: str) -> object:
    found: Any = values
    for part in field.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _combine(base: Table, variants: Sequence[Variant]) -> dict[str, Any]:
    """Build a spec as tables: whole sections are replaced first, then single fields are set.

    Where nothing was there, they are set in the section that a spec has by default.
    """
    values = dict(base)
    partial: list[tuple[str, Table]] = []
    for variant in variants:
        for name, new in variant.changes.items():
            if isinstance(new, Mapping) and RunSpec.tag_of(name) not in new:
                partial.append((name, new))
            else:
                values[name] = new
    for name, changes in partial:
        old = values[name] if name in values else _get_default_section(name)
        old = {RunSpec.tag_of(name): old} if isinstance(old, str) else old
        if not isinstance(old, Mapping):
            raise FieldError(name, f"to be a table, got {quote(old)}.")
        values[name] = overlay(old, changes)
    return values


@cache
def _get_default_section(section: str) -> Table:
    value = RunSpec().to_dict().get(section)
    return value if isinstance(value, Mapping) else {}


def _check_apart(axes: Sequence[Axis]) -> None:
    """Two axes must not set the same field: one of them would have no effect."""
    owners: dict[str, str] = {}
    for axis in axes:
        mine: dict[str, str] = {}
        for variant in axis:
            for field, value in flatten_tables(variant.changes):
                tag = RunSpec.tag_of(field)
                whole = f"{field}.{tag}" if tag and isinstance(value, str) else field
                mine[whole] = f"{variant.origin}.{field}"
        for field, place in mine.items():
            if field in owners:
                raise FieldError(
                    place, f"sets the same field as {owners[field]}. Set it in one place."
                )
        owners |= mine


def _move_error(error: FieldError, variants: Sequence[Variant]) -> InputError:
    """Move the error of a spec to the place in the sweep's file where the field was set."""
    for variant in reversed(variants):
        for field, _ in flatten_tables(variant.changes):
            if f"{field}.".startswith(f"{error.field}.") or error.field.startswith(f"{field}."):
                return error.within(variant.origin)
    return error.within("base")


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
