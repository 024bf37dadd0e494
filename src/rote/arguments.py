"""Checks of single arguments: each returns the value, or raises an error with what is expected."""

import math
import operator
from collections.abc import Iterable
from contextlib import suppress
from numbers import Real
from pathlib import Path

from rote.errors import InputError, did_you_mean, quote


def check_integer(
    name: str, value: object, *, least: int | None = None, most: int | None = None
) -> int:
    """Check that an argument is a whole number; numpy's and torch's count, booleans do not.

    Raises:
        InputError: if it is none, smaller, or larger.

    Example:
        >>> check_integer("rounds", 3, least=1)
        3
    """
    is_boolean = isinstance(value, bool)
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # refused if it does not fit
    except TypeError:
        is_boolean, number = True, 0
    is_small = least is not None and number < least
    if is_boolean or is_small or (most is not None and number > most):
        what = "an integer" if least is None else f"an integer of at least {least}"
        what += "" if most is None else f" and at most {most}"
        raise InputError(f"Expected `{name}` to be {what}, got {quote(value)}.")
    return number


def check_number(
    name: str,
    value: object,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> float:
    """Check that an argument is a finite number within bounds.

    Raises:
        InputError: if it is none, or out of bounds.

    Example:
        >>> check_number("rate", 0.5, least=0, most=1)
        0.5
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        number = _convert_to_float(value)
        if math.isfinite(number) and least <= number <= most and above < number < below:
            return number
    bounds = _describe_bounds(least, most, above, below)
    raise InputError(f"Expected `{name}` to be {bounds}, got {quote(value)}.")


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """One of several words.

    Raises:
        InputError: if it is none of them; with a guess at which was meant.

    Example:
        >>> check_choice("mode", "train", ("train", "eval"))
        'train'
    """
    known = list(choices)
    if isinstance(value, str) and value in known:
        return value
    raise InputError(
        f"Expected `{name}` to be one of {', '.join(known)}, got {quote(value)}."
        f"{did_you_mean(value, known)}"
    )


def check_path(name: str, value: Path | str) -> Path:
    """Return a path, with ``~`` replaced by the home directory of the user.

    Raises:
        InputError: if there is no such user, or no file can have that path.

    Example:
        >>> str(check_path("out", "runs/a"))
        'runs/a'
    """
    reason = "a null character is not allowed in it"
    try:
        if "\0" not in str(value):
            path = Path(value).expanduser()
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                path.lstat()
            return path
    except RuntimeError:
        reason = "there is no such user"
    except OSError as error:  # such as a name of 300 letters
        reason = error.strerror or str(error)
    raise InputError(f"Expected `{name}` to be a path, got {quote(str(value))}: {reason}.")


def place_in(folder: Path, name: str) -> Path:
    """Return the path of a name in a folder; slashes in it lead into folders below.

    Raises:
        InputError: if it leads out of the folder, or cannot be the name of a file.

    Example:
        >>> str(place_in(Path("runs"), "a/b"))
        'runs/a/b'
    """
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise InputError(
            f"Expected `name` to be a name inside of {folder}, got {quote(name)}. Choose another."
        )
    return folder / path


def check_instance(name: str, value: object, kind: type) -> None:
    """Check that an argument is an object of a class.

    Raises:
        InputError: if it is of another.
    """
    if not isinstance(value, kind):
        raise InputError(f"Expected `{name}` to be a {kind.__name__}, got {quote(value)}.")


def _convert_to_float(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:  # of hundreds of digits
        return math.inf


def _describe_bounds(least: float, most: float, above: float, below: float) -> str:
    if math.isfinite(least) and math.isfinite(most):
        return f"a number from {least:g} to {most:g}"
    if math.isfinite(most) or math.isfinite(below):
        low = f"above {above:g} and " if math.isfinite(above) else ""
        low = f"at least {least:g} and " if math.isfinite(least) else low
        high = f"at most {most:g}" if math.isfinite(most) else f"below {below:g}"
        return f"a number that is {low}{high}"
    if math.isfinite(above):
        bound = "positive and finite" if above == 0 else f"finite and above {above:g}"
        return f"a number that is {bound}"
    return f"a number of at least {least:g}" if math.isfinite(least) else "a finite number"
