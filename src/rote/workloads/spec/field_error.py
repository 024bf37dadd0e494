"""The error of a spec: it knows which field is wrong, so that a line can be found for it."""

from rote.errors import InputError, shown

_NAMED = 80  # characters of a field


class FieldError(InputError):
    """A field of a spec does not fit.

    Args:
        field: its dotted name, such as ``optimizer.lr``.
        complaint: what follows "Expected `field`": what it should be, what it is, what to do.
    """

    def __init__(self, field: str, complaint: str) -> None:
        name = field if len(field) <= _NAMED else f"{field[:_NAMED]}…"
        super().__init__(f"Expected `{name}` {complaint}")
        self.field = field
        self.complaint = complaint

    def within(self, section: str) -> "FieldError":
        """The same error as seen from outside a section."""
        return FieldError(f"{section}.{self.field}", self.complaint)


def refuse(field: str, expected: str, given: object, hint: str = "") -> FieldError:
    """The error for a value, in the one sentence shape."""
    return FieldError(field, f"to be {expected}, got {shown(given)}.{hint}")
