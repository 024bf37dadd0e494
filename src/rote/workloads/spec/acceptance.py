"""From plain values to typed ones: does a value fit the annotation of its field?"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from rote.errors import did_you_mean
from rote.workloads.spec.field_error import FieldError, refuse
from rote.workloads.spec.options import Options

_HINTS: dict[Any, dict[str, Any]] = {}  # a sweep makes thousands of specs
_WORDS = {int: "an integer", float: "a number", str: "text", bool: "true or false"}


def hints_of(section: Any) -> dict[str, Any]:  # noqa: ANN401
    """The annotations of a section, with their constraints."""
    if section not in _HINTS:
        _HINTS[section] = get_type_hints(section, include_extras=True)
    return _HINTS[section]


def accept(annotation: Any, value: object, field: str) -> Any:  # noqa: ANN401
    """Check a value against an annotation.

    Args:
        annotation: of the field.
        value: what was given; a table (or text, for its tag) where a section is meant.
        field: its name, for the message.

    Returns:
        The value, as its type: whole numbers as floats where a float is meant, tables as sections.

    Raises:
        FieldError: if it does not fit.
    """
    kind = get_origin(annotation)
    if kind is Annotated:
        return _accept_constrained(annotation, value, field)
    if kind in (Union, UnionType):
        return _accept_union(get_args(annotation), value, field)
    if kind is Literal:
        return _accept_choice(get_args(annotation), value, field)
    if kind is tuple:
        return _accept_list(get_args(annotation)[0], value, field)
    if annotation is Options:
        return _accept_options(value, field)
    if is_dataclass(annotation):
        return _accept_section((annotation,), value, field)
    return _accept_scalar(annotation, value, field)


def _accept_constrained(annotation: Any, value: object, field: str) -> Any:  # noqa: ANN401
    base, *constraints = get_args(annotation)
    try:
        accepted = accept(base, value, field)
    except FieldError:
        raise refuse(field, _words(annotation), value) from None
    if all(constraint.holds(accepted) for constraint in constraints):
        return accepted
    raise refuse(field, _words(annotation), value)


def _accept_scalar(kind: type, value: object, field: str) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise refuse(field, _words(kind), value)
    return value


def _accept_choice(choices: tuple[str, ...], value: object, field: str) -> object:
    if value in choices:
        return value
    hint = did_you_mean(value, list(choices))
    raise refuse(field, _words(Literal[choices]), value, hint)


def _accept_list(kind: Any, value: object, field: str) -> tuple[Any, ...]:  # noqa: ANN401
    if not isinstance(value, list | tuple):
        raise refuse(field, f"a list, each {_words(kind)}", value)
    return tuple(accept(kind, entry, field) for entry in value)


def _accept_options(value: object, field: str) -> Options:
    if isinstance(value, Options):
        return value
    if not isinstance(value, Mapping):
        raise refuse(field, "a table of options", value)
    try:
        return Options(value)
    except TypeError as error:
        raise FieldError(
            field, f"to hold plain values, got an entry that does not: {error}."
        ) from (error)


def _accept_union(arms: tuple[Any, ...], value: object, field: str) -> Any:  # noqa: ANN401
    if value is None and NoneType in arms:
        return None
    others = tuple(arm for arm in arms if arm is not NoneType)
    if all(is_dataclass(arm) for arm in others):
        return _accept_section(others, value, field)
    if len(others) > 1:
        # Text, or a table: the only other union there is.
        return accept(Options if isinstance(value, Mapping) else str, value, field)
    return accept(others[0], value, field)


def _accept_section(arms: tuple[Any, ...], value: object, field: str) -> Any:  # noqa: ANN401
    if isinstance(value, arms):
        return value
    tag = arms[0].tag
    if isinstance(value, str) and tag is not None:
        value = {tag: value}
    if not isinstance(value, Mapping):
        raise refuse(field, "a table" if tag is None else f"a table, or its `{tag}`", value)
    section = arms[0] if len(arms) == 1 else _choose(arms, value, f"{field}.{tag}")
    return build(section, value, field)


def _choose(arms: tuple[Any, ...], values: Mapping[str, Any], field: str) -> Any:  # noqa: ANN401
    tag = arms[0].tag
    by_name = {name: arm for arm in arms for name in get_args(hints_of(arm)[tag])}
    if tag not in values:
        raise FieldError(field, f"to be given, one of {', '.join(by_name)}, got nothing.")
    return by_name[_accept_choice(tuple(by_name), values[tag], field)]


def build(section: Any, values: Mapping[str, Any], field: str = "") -> Any:  # noqa: ANN401
    """Make a section from a table.

    Args:
        section: its class.
        values: its fields.
        field: its own name; empty for the whole spec.

    Returns:
        The section.

    Raises:
        FieldError: if a field is unknown, missing, or does not fit.
    """
    prefix = f"{field}." if field else ""
    known = {entry.name: entry for entry in fields(section)}
    for name in values:
        if name not in known:
            whose = f" of {values[section.tag]!r}" if section.tag in values else ""
            raise FieldError(
                f"{prefix}{name}",
                f"to be a known field{whose} ({', '.join(known)}), got an unknown one."
                f"{did_you_mean(name, list(known))}",
            )
    for name, entry in known.items():
        if name not in values and entry.default is MISSING and entry.default_factory is MISSING:
            expected = _words(hints_of(section)[name])
            raise FieldError(f"{prefix}{name}", f"to be given, {expected}, got nothing.")
    hints = hints_of(section)
    accepted = {name: accept(hints[name], value, prefix + name) for name, value in values.items()}
    try:
        return section(**accepted)
    except FieldError as error:
        raise (error.within(field) if field else error) from None


def _words(annotation: Any) -> str:  # noqa: ANN401
    """An annotation as a person says it."""
    kind = get_origin(annotation)
    if kind is Annotated:
        base, *constraints = get_args(annotation)
        return " ".join([_words(base), *(constraint.words for constraint in constraints)])
    if kind is Literal:
        choices = get_args(annotation)
        return f"one of {', '.join(choices)}" if len(choices) > 1 else repr(choices[0])
    if kind in (Union, UnionType):
        return " or ".join(_words(arm) for arm in get_args(annotation) if arm is not NoneType)
    return _WORDS.get(annotation, "a table")
