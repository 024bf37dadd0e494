"""Whether an earlier run may be gone on with: its readings and new ones must have one meaning."""

from collections.abc import Mapping
from typing import Any

from rote.errors import StateError


def check_same_run(found: Mapping[str, Any], wanted: Mapping[str, Any], place: str) -> None:
    """Refuse to go on with a run that measured something else.

    Args:
        found: the description of the earlier run.
        wanted: that of the run that would go on.
        place: where the earlier one lies.

    Raises:
        StateError: if classes, random labels, samples or policy differ.
    """
    for key in ("num_classes", "labels", "pool", "policy"):
        mine, theirs = wanted[key], found.get(key)
        if key == "policy":  # to verify or not changes no reading
            mine, theirs = ({**(policy or {}), "verify": None} for policy in (mine, theirs))
        if mine != theirs:
            raise StateError(
                f"Expected {_WORDS[key]} to be as in the run to resume ({place}), got "
                f"{_difference(key, mine, theirs)}. Give what the run was started with, or start "
                "a new one elsewhere."
            )


_WORDS = {
    "num_classes": "`num_classes`",
    "labels": "the random labels (`labels`, `seed`)",
    "pool": "the pool (`inputs`)",
    "policy": "`policy`",
}


def _difference(key: str, mine: Any, theirs: Any) -> str:  # noqa: ANN401
    """What differs, in words; values that only machines read are left out."""
    if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
        if key == "num_classes":
            return f"{mine} instead of {theirs}"
        return "a fixed one instead of none" if mine else "none instead of a fixed one"
    unlike = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    plain = [name for name in unlike if name not in _UNREADABLE]
    if plain:
        return ", ".join(f"{name} {mine.get(name)} instead of {theirs.get(name)}" for name in plain)
    if key == "pool":
        return f"as many samples ({mine['size']}), but others"
    return "others of the same kind and shape"


_UNREADABLE = ("hash", "values")
