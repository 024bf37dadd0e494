"""``[sample]``: values drawn at random from a seed, the same ones everywhere and every time."""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

from rote.errors import shown
from rote.store import leaves
from rote.sweeps.axis import Axis, Table, as_table, check_names, check_size, variant_of
from rote.workloads import FieldError

_ORIGIN = "sample.draw"
_LARGEST = 2**63  # of the ends of a range; no NaN, either


def sample_axis(table: object) -> Axis:
    """An axis of ``count`` variants; each draws every field of ``[sample.draw]``.

    Each field has a stream of its own: another field, or a larger count, changes no draw that was
    there before.

    Raises:
        FieldError: if the table does not fit.

    Example:
        >>> axis = sample_axis({"count": 2, "draw": {"batch": {"integers": [16, 64]}}})
        >>> [variant.changes for variant in axis]
        [{'batch': 60}, {'batch': 62}]
    """
    table = as_table(table, "sample")
    check_names(table, ("count", "seed", "draw"), "sample.")
    count, seed = _whole(table, "count", None, at_least=1), _whole(table, "seed", 0, at_least=0)
    check_size("sample.count", count)
    drawn = {
        field: list(islice(_draws(entry, field, seed), count))
        for field, entry in leaves(as_table(table.get("draw"), _ORIGIN), stop=tuple(_WAYS))
    }
    return tuple(
        variant_of({field: values[place] for field, values in drawn.items()}, _ORIGIN)
        for place in range(count)
    )


def _draws(entry: object, field: str, seed: int) -> Iterator[Any]:
    where = f"{_ORIGIN}.{field}"
    ways = ", ".join(f"{{ {way} = […] }}" for way in _WAYS)
    if not isinstance(entry, dict) or len(entry) != 1 or next(iter(entry)) not in _WAYS:
        raise FieldError(where, f"to be one of {ways}, got {shown(entry)}.")
    ((way, values),) = entry.items()
    draw = _WAYS[way](values, f"{where}.{way}")
    # Of all that Random offers, only random() is promised to be the same in every Python.
    generator = Random(f"{seed} {field}")
    while True:
        yield draw(generator.random())


def _choices(values: object, field: str) -> Callable[[float], Any]:
    if not isinstance(values, list) or not values:
        raise FieldError(field, f"to be a list of values, got {shown(values)}.")
    return lambda share: values[int(share * len(values))]


def _uniform(values: object, field: str) -> Callable[[float], float]:
    low, high = _ends(values, field)
    return lambda share: _rounded(low + share * (high - low))


def _log_uniform(values: object, field: str) -> Callable[[float], float]:
    low, high = _ends(values, field)
    if low <= 0:
        raise FieldError(field, f"to be two numbers above 0, got {shown(values)}.")
    return lambda share: _rounded(low * (high / low) ** share)


def _integers(values: object, field: str) -> Callable[[float], int]:
    low, high = _ends(values, field)
    if not (isinstance(low, int) and isinstance(high, int)):
        raise FieldError(field, f"to be two whole numbers, got {shown(values)}.")
    return lambda share: low + int(share * (high - low + 1))


_WAYS: dict[str, Callable[[object, str], Callable[[float], Any]]] = {
    "choices": _choices,
    "uniform": _uniform,
    "log_uniform": _log_uniform,
    "integers": _integers,
}


def _ends(values: object, field: str) -> tuple[float, float]:
    if isinstance(values, list) and len(values) == 2 and all(map(_is_number, values)):
        low, high = values
        if low < high:
            return low, high
    raise FieldError(field, f"to be two numbers, the smaller one first, got {shown(values)}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _rounded(value: float) -> float:
    """Six digits: the last bits of a power differ between machines, and would make other runs."""
    return float(f"{value:.6g}")


def _whole(table: Table, name: str, default: int | None, *, at_least: int) -> int:
    value = table.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        given = "nothing" if value is None else shown(value)
        raise FieldError(f"sample.{name}", f"to be an integer of at least {at_least}, got {given}.")
    return value
