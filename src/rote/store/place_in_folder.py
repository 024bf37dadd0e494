"""Where something with a name lies inside of a folder: never outside of it."""

from pathlib import Path

from rote.errors import InputError, shown


def place_in(folder: Path, name: str, argument: str = "name") -> Path:
    """The path of a name in a folder; slashes in it lead into folders below.

    Raises:
        InputError: if it leads out of the folder, or cannot be the name of a file.

    Example:
        >>> str(place_in(Path("runs"), "a/b"))
        'runs/a/b'
    """
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise InputError(
            f"Expected `{argument}` to be a name inside of {folder}, got {shown(name)}. "
            "Choose another."
        )
    return folder / path
