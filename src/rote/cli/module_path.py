"""Where a user's own modules are found: beside the file that names them, or where they stand."""

import sys
from pathlib import Path


def find_modules_in(folder: Path) -> None:
    """Let the modules of a folder be found, after all others: nothing that is installed gives way.

    The `rote` command does not look where it is called, as `python -m` does.

    Args:
        folder: of a spec, or the one that the user stands in.
    """
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)


def find_named(*addresses: str | None) -> None:
    """Let modules be found where the user stands, if one is named: ``my_rule:Sure``.

    Args:
        addresses: what the user typed; None where nothing.
    """
    if any(":" in address for address in addresses if address is not None):
        find_modules_in(Path.cwd())
