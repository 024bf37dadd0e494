"""A section of a spec: a frozen record that checks its fields by their annotations."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, ClassVar

from rote.workloads.spec.acceptance import accept, hints_of
from rote.workloads.spec.options import Options


@dataclass(frozen=True, kw_only=True)
class Section:
    """Base of all sections.

    A field's annotation is its check: ``int``, ``float``, ``str``, ``bool``, ``Literal``,
    ``Options``, another section, a union of sections told apart by their tag, any of these or
    ``None``, and ``Annotated`` with constraints on numbers. Whole numbers are taken for ``float``.
    """

    tag: ClassVar[str | None] = None
    """The field that says which of several sections it is; text alone stands for that field."""

    def __post_init__(self) -> None:
        hints = hints_of(type(self))
        for entry in fields(self):
            accepted = accept(hints[entry.name], getattr(self, entry.name), entry.name)
            object.__setattr__(self, entry.name, accepted)
        self.check()

    def check(self) -> None:
        """Refuse fields that do not go together."""

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain values, the tag first; what is ``None`` is left out."""
        names = sorted((entry.name for entry in fields(self)), key=lambda name: name != self.tag)
        values = {name: getattr(self, name) for name in names}
        return {name: _plain(value) for name, value in values.items() if value is not None}

    def essence(self) -> dict[str, Any]:
        """What sets it apart: its tag, and the fields that are not as they are by default.

        Fields marked ``identity: False`` do not count. A field added later, at its default,
        changes nothing here.
        """
        values: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not entry.metadata.get("identity", True):
                continue
            if entry.name == self.tag or value != _default_of(entry):
                values[entry.name] = value.essence() if isinstance(value, Section) else value
        return {name: _plain(value) for name, value in values.items()}


def _default_of(entry: "Field[Any]") -> object:
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default


def _plain(value: object) -> object:
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Options | Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value
