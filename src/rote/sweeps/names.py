"""What runs are called: for people in tables, for the disk in directories."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rote.workloads import RunSpec


def run_name(spec: RunSpec) -> str:
    """A directory for a single run: its name for people, its identity for the rest."""
    return spec.identity if spec.name is None else f"{spec.name}-{spec.identity[:8]}"


def run_path(store: Path, spec: RunSpec) -> Path:
    """The directory of a run in a store: its identity alone.

    Sweeps that call the same run by different names find the same directory, and so the same lock.
    """
    return store / spec.identity


def label_of(field: str, value: object) -> str:
    """A few letters for the value of a field.

    Args:
        field: its dotted name.
        value: text and tables speak for themselves, numbers come with the field's last word.

    Example:
        >>> label_of("optimizer.lr", 0.1), label_of("architecture", {"name": "mlp", "scale": 2})
        ('lr0.1', 'mlp-scale2')
    """
    return "-".join(_labels(field, value))


def _labels(field: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _labels(f"{field}.{name}", entry)
    elif isinstance(value, list | tuple):
        yield field.rpartition(".")[2] + "x".join("-".join(_labels("", entry)) for entry in value)
    elif isinstance(value, str):
        yield value
    else:
        yield field.rpartition(".")[2] + _number(value)


def _number(value: object) -> str:
    """The shortest text that is this number and no other: names must tell runs apart."""
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value).lower()
