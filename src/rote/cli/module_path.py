"""The import path of user modules: the folder of the file that names them, or the current one."""

import sys
from pathlib import Path


def find_modules_in(folder: Path) -> None:
    """Make the modules of a folder importable, after all installed ones.

    Unlike `python -m`, the `rote` command does not search the current folder by itself.

    Args:
        folder: the folder of a spec, or the current folder.
    """
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)


def find_named(*addresses: str | None) -> None:
    """Make modules of the current folder importable, if one is named: ``my_rule:Sure``.

    Args:
        addresses: the given names, or None.
    """
    if any(":" in address for address in addresses if address is not None):
        find_modules_in(Path.cwd())
