"""The search space: a file that stands for many runs."""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any

from rote.errors import InputError, quote
from rote.store import flatten_tables
from rote.sweeps.axis import (
    Axis,
    Table,
    Variant,
    check_names,
    check_size,
    check_table,
    overlay,
    read_grid,
    read_lists,
    read_zips,
    sample_axis,
)
from rote.workloads import FieldError, RunSpec, locate_errors, read_toml

_TABLES = ("name", "base", "lists", "zip", "grid", "sample", "exclude")


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
        """Whether a run is left out, by its spec as nested tables."""
        return all(_fulfills(values, field, allowed) for field, allowed in self.conditions)


@dataclass(frozen=True)
class SearchSpace:
    """Many runs, described together; every combination of one variant per axis is a run.

    Iterating gives the specs one by one, always the same in the same order. A run that several
    combinations describe comes once. An exclusion that leaves out nothing is an error, found when
    all combinations have been looked at.

    Attributes:
        base: what all runs have in common, as in a spec.
        axes: what varies; the last one varies fastest.
        excluded: what is left out.
        name: what names of runs begin with, or a pattern such as ``{architecture.name}-{seed}``.
        file: where all this stands.
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
            # What does not go together may be excluded for that very reason.
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
