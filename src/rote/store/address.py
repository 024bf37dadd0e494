"""Places that are no paths: ``mlflow:EXPERIMENT[@uri]``, ``tensorboard:LOGDIR`` and their like."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rote.errors import InputError, did_you_mean

KINDS = ("mlflow", "tensorboard", "wandb", "wandb-offline", "csv")

# Neither the drive of a Windows path nor a time of day; but any `scheme://`.
_PREFIX = re.compile(r"([A-Za-z][A-Za-z-]{2,}(?=:)|\w{2,}(?=://)):(.*)", re.DOTALL)
# An experiment's name may hold an @ of its own; the one before an address separates.
_URI = re.compile(r"@(?=[A-Za-z][\w+.-]*:/|/|~|\.{1,2}/|[^@]*\.db$|databricks$)")


@dataclass(frozen=True)
class Address:
    """Where a logger keeps runs.

    Attributes:
        kind: which logger, one of ``KINDS``.
        place: an experiment, a directory, a project or a file; may be empty.
        uri: the MLflow store, if one is named.
    """

    kind: str
    place: str
    uri: str | None = None

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.kind}:{self.place}" + (f"@{self.uri}" if self.uri else "")

    @property
    def path(self) -> Path:
        """The place, as a path."""
        return Path(self.place).expanduser()


def parse_address(text: str, argument: str, kinds: Collection[str] = KINDS) -> Address | None:
    """Tell an address from a path; a path that exists is one, whatever it looks like.

    Args:
        text: what was given.
        argument: where, for the message.
        kinds: those that go there, for the message.

    Returns:
        The address, of any kind, or None if it is a path.

    Raises:
        InputError: if it looks like an address of no kind that there is.

    Example:
        >>> parse_address("mlflow:digits@sqlite:///mlflow.db", "runs")
        Address(kind='mlflow', place='digits', uri='sqlite:///mlflow.db')
        >>> parse_address("runs/a", "runs")
    """
    found = _PREFIX.fullmatch(text)
    if found is None or Path(text).exists():
        return None
    kind, place = found[1].lower(), found[2]
    if kind not in KINDS:
        known = ", ".join(f"{name}:" for name in kinds)
        way = did_you_mean(kind, kinds) or f" A directory of that name is './{text}'."
        raise InputError(
            f"Expected `{argument}` to be a path or to start with one of {known}, got {text!r}."
            f"{way}"
        )
    if kind != "mlflow":
        return Address(kind, place)
    name, *uri = _URI.split(place, maxsplit=1)
    return Address(kind, name, uri[0] if uri else None)
