"""The base of all sections of a spec: a frozen record that checks its fields by annotation."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from rote.errors import InputError, did_you_mean, quote

MOST_SEED = 2**63 - 1
"""The largest seed that every generator takes."""


@dataclass(frozen=True)
class AtLeast:
    """Not smaller than ``low``."""

    low: float

    def __contains__(self, value: float) -> bool:
        return value >= self.low

    def __str__(self) -> str:
        return f"of at least {self.low}"


@dataclass(frozen=True)
class Above:
    """Larger than ``low``."""

    low: float

    def __contains__(self, value: float) -> bool:
        return value > self.low

    def __str__(self) -> str:
        return f"above {self.low}"


@dataclass(frozen=True)
class Between:
    """From ``low`` to ``high``, both allowed unless ``below`` excludes ``high``."""

    low: float
    high: float
    below: bool = False

    def __contains__(self, value: float) -> bool:
        return self.low <= value and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        return f"from {self.low} {'below' if self.below else 'to'} {self.high}"


_DEEPEST = 20  # lists inside of lists

Plain: TypeAlias = "str | int | float | bool | tuple[Plain, ...]"


class Options(Mapping[str, Plain]):
    """Names and plain values, sorted by name.

    Args:
        entries: the values; lists become tuples.

    Raises:
        TypeError: if a name is no string, or a value is not plain.

    Example:
        >>> Options({"width": 64, "depth": 2})
        Options({'depth': 2, 'width': 64})
    """

    def __init__(self, entries: Mapping[str, object] | None = None) -> None:
        given = dict(entries or {})
        if not all(isinstance(name, str) for name in given):
            raise TypeError("a name is not a string")
        if not all(map(is_storable, given)):
            raise TypeError("a name contains characters that no file can hold")
        self._entries = {name: _freeze(given[name]) for name in sorted(given)}

    def __getitem__(self, name: str) -> Plain:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(tuple(self._entries.items()))

    def __repr__(self) -> str:
        return f"Options({self._entries})"


def _freeze(value: object, depth: int = 0) -> Plain:
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return tuple(_freeze(entry, depth + 1) for entry in value)
    if isinstance(value, str | bool | int | float) and is_storable(value):
        return value
    raise TypeError(f"{quote(value)} is not a string, finite number, boolean, or list of these")


def is_storable(value: object) -> bool:
    """Return whether TOML and JSON can hold a value: no NUL, no integer beyond 64 bits."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, str):
        return "\0" not in value and (
            value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
        )
    return not isinstance(value, float) or math.isfinite(value)


_NAMED = 80  # characters of a field


class FieldError(InputError):
    """A field of a spec does not fit.

    Args:
        field: its dotted name, such as ``optimizer.lr``.
        complaint: what follows the name: "to be …, got …" for a bad value, which makes it
            "Expected `field` to be …", or any other predicate, such as "is required".

    Attributes:
        field: the dotted name.
        complaint: the rest of the sentence.
    """

    def __init__(self, field: str, complaint: str) -> None:
        name = field if len(field) <= _NAMED else f"{field[:_NAMED]}…"
        is_bad_value = complaint.startswith("to ")
        super().__init__(f"{'Expected ' if is_bad_value else ''}`{name}` {complaint}")
        self.field = field
        self.complaint = complaint

    def within(self, section: str) -> "FieldError":
        """Return the same error as seen from outside a section."""
        return FieldError(f"{section}.{self.field}", self.complaint)


def refuse(field: str, expected: str, given: object, hint: str = "") -> FieldError:
    """Return the error for a value that does not fit."""
    return FieldError(field, f"to be {expected}, got {quote(given)}.{hint}")


_WORDS = {int: "an integer", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True, kw_only=True)
class Section:
    """Base of all sections.

    A field's annotation is its check, made once, when the section is made: ``int``, ``float``,
    ``str``, ``bool``, ``Literal``, ``tuple`` of one kind, ``Options``, another section, a union
    of sections distinguished by their tag, any of these or ``None``, and ``Annotated`` with
    constraints on numbers. Whole numbers are taken for ``float``, tables (or text, for its tag)
    for a section.

    Raises:
        FieldError: if a field does not fit.
    """

    tag: ClassVar[str | None] = None
    """The field that says which of several sections it is; text alone stands for that field."""

    def __post_init__(self) -> None:
        hints = _read_hints(type(self))
        for entry in fields(self):
            value = _convert(hints[entry.name], getattr(self, entry.name), entry.name)
            object.__setattr__(self, entry.name, value)
        self.check()

    def check(self) -> None:
        """Refuse fields that do not go together."""

    @classmethod
    def implied_tag(cls, values: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Return which of several sections is meant where the tag is left out; None if none is."""
        return None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a section from a table.

        Raises:
            FieldError: if a field is unknown, missing, or does not fit.
        """
        known = {entry.name: entry for entry in fields(cls)}
        for name in values:
            if name not in known:
                whose = f" of {quote(values[cls.tag])}" if cls.tag and cls.tag in values else ""
                raise FieldError(
                    name,
                    f"is not a field{whose}.{did_you_mean(name, list(known))} "
                    f"Known fields: {', '.join(known)}.",
                )
        for name, entry in known.items():
            if name not in values and _read_default(entry) is MISSING:
                expected = _describe(_read_hints(cls)[name])
                raise FieldError(name, f"is required: {expected}.")
        return cls(**values)

    @classmethod
    def tag_of(cls, field: str) -> str | None:
        """Return the tag of the section that a field holds; None if it holds none."""
        annotation = _read_hints(cls).get(field)
        arm = (get_args(annotation) or (annotation,))[0]
        tag: str | None = getattr(arm, "tag", None)
        return tag

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain values, the tag first; what is ``None`` is left out."""
        names = sorted((entry.name for entry in fields(self)), key=lambda name: name != self.tag)
        values = {name: getattr(self, name) for name in names}
        return {
            name: _convert_to_plain(value) for name, value in values.items() if value is not None
        }

    def identity_fields(self) -> dict[str, Any]:
        """Return the identity of a section: its tag, and the fields that differ from the default.

        Fields marked ``identity: False`` do not count. A field added later, at its default,
        changes nothing here.
        """
        values: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not entry.metadata.get("identity", True):
                continue
            if entry.name == self.tag or value != _read_default(entry):
                values[entry.name] = (
                    value.identity_fields() if isinstance(value, Section) else value
                )
        return {name: _convert_to_plain(value) for name, value in values.items()}


_HINTS: dict[type[Section], dict[str, Any]] = {}  # a sweep makes thousands of specs


def _read_hints(section: type[Section]) -> dict[str, Any]:
    if section not in _HINTS:
        _HINTS[section] = get_type_hints(section, include_extras=True)
    return _HINTS[section]


def _read_default(entry: "Field[Any]") -> object:
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default


def _convert_to_plain(value: object) -> object:
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Options | Mapping):
        return {name: _convert_to_plain(entry) for name, entry in value.items()}
    return [_convert_to_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _convert(annotation: Any, value: object, field: str) -> Any:  # noqa: ANN401
    """Convert a value to what its annotation wants.

    Raises:
        FieldError: if it does not fit.
    """
    kind = get_origin(annotation)
    if kind is Annotated:
        return _convert_bounded(annotation, value, field)
    if kind in (Union, UnionType):
        return _convert_union(get_args(annotation), value, field)
    if kind is Literal:
        return _convert_choice(get_args(annotation), value, field)
    if kind is tuple:
        return _convert_list(get_args(annotation)[0], value, field)
    if annotation is Options:
        return _convert_options(value, field)
    if _is_section(annotation):
        return _convert_section((annotation,), value, field)
    return _convert_scalar(annotation, value, field)


def _convert_bounded(annotation: Any, value: object, field: str) -> Any:  # noqa: ANN401
    base, *constraints = get_args(annotation)
    try:
        number = _convert(base, value, field)
    except FieldError:
        raise refuse(field, _describe(annotation), value) from None
    if all(number in constraint for constraint in constraints):
        return number
    raise refuse(field, _describe(annotation), value)


def _convert_scalar(kind: type, value: object, field: str) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if is_storable(value) else math.inf
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise refuse(field, _describe(kind), value)
    if not is_storable(value):
        raise refuse(field, f"{_describe(kind)} that a file can hold", value)
    return value


def _convert_choice(choices: tuple[str, ...], value: object, field: str) -> Any:  # noqa: ANN401
    if value in choices:
        return value
    raise refuse(field, _describe(Literal[choices]), value, did_you_mean(value, list(choices)))


def _convert_list(kind: Any, value: object, field: str) -> tuple[Any, ...]:  # noqa: ANN401
    if not isinstance(value, list | tuple):
        raise refuse(field, f"a list, each {_describe(kind)}", value)
    return tuple(_convert(kind, entry, field) for entry in value)


def _convert_options(value: object, field: str) -> Options:
    if isinstance(value, Options):
        return value
    if not isinstance(value, Mapping):
        raise refuse(field, "a table of options", value)
    try:
        return Options(value)
    except TypeError as error:
        complaint = f"holds a value that no spec can store: {error}."
        raise FieldError(field, complaint) from error


def _convert_union(arms: tuple[Any, ...], value: object, field: str) -> Any:  # noqa: ANN401
    if value is None and NoneType in arms:
        return None
    others = tuple(arm for arm in arms if arm is not NoneType)
    if all(map(_is_section, others)):
        return _convert_section(others, value, field)
    if len(others) > 1:
        # Text, or a table: the only other union there is.
        return _convert(Options if isinstance(value, Mapping) else str, value, field)
    return _convert(others[0], value, field)


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _convert_section(arms: tuple[type[Section], ...], value: object, field: str) -> Section:
    if isinstance(value, arms):
        return value
    tag = arms[0].tag
    if isinstance(value, str) and tag is not None:
        value = {tag: value}
    if not isinstance(value, Mapping):
        raise refuse(field, "a table" if tag is None else f"a table, or its `{tag}`", value)
    try:
        return (arms[0] if len(arms) == 1 else _find_arm(arms, value)).from_dict(value)
    except FieldError as error:
        raise error.within(field) from None


def _find_arm(arms: tuple[type[Section], ...], values: Mapping[str, Any]) -> type[Section]:
    tag = arms[0].tag
    assert tag is not None
    by_name = {name: arm for arm in arms for name in get_args(_read_hints(arm)[tag])}
    named = values.get(tag, arms[0].implied_tag(values))
    if named is None:
        raise FieldError(tag, f"is required: one of {', '.join(by_name)}.")
    return by_name[_convert_choice(tuple(by_name), named, tag)]


def _describe(annotation: Any) -> str:  # noqa: ANN401
    """Describe an annotation in words."""
    kind = get_origin(annotation)
    if kind is Annotated:
        base, *constraints = get_args(annotation)
        return " ".join([_describe(base), *map(str, constraints)])
    if kind is Literal:
        choices = get_args(annotation)
        return f"one of {', '.join(choices)}" if len(choices) > 1 else repr(choices[0])
    if kind in (Union, UnionType):
        return " or ".join(_describe(arm) for arm in get_args(annotation) if arm is not NoneType)
    return _WORDS.get(annotation, "a table")
