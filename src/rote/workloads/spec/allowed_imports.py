"""The modules that a spec may import: those in its folder, and those that the user allows."""

import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rote.errors import quote
from rote.workloads.architectures import ARCHITECTURES
from rote.workloads.spec.run_spec import RunSpec
from rote.workloads.spec.section import FieldError


@dataclass(frozen=True)
class AllowedImports:
    """``package.module:name`` in a spec runs the code of that module: not every one may be named.

    Attributes:
        modules: allowed by the user, with what is inside of them.
        folder: that of the spec; modules in it or below it are allowed. None allows no folder.
    """

    modules: tuple[str, ...] = ()
    folder: Path | None = None

    def check(self, spec: RunSpec) -> None:
        """Refuse a spec that names other code; nothing is imported.

        Raises:
            FieldError: naming the module, and how to allow it.
        """
        for field, address in _iterate_addresses(spec):
            module = address.partition(":")[0]
            if not self._allows(module):
                beside = "" if self.folder is None else "in the spec's folder and not "
                raise FieldError(
                    field,
                    f"names {quote(address)}, whose code is not {beside}allowed. Importing it "
                    "runs its code: if you trust it, add --allow-import "
                    f"{quote(module)[1:-1]}.",
                )

    def _allows(self, module: str) -> bool:
        if any(f"{module}.".startswith(f"{name}.") for name in self.modules):
            return True
        place = _find_module(module.partition(".")[0])
        if self.folder is None or place is None:
            return False
        return place.is_relative_to(self.folder.resolve()) and not _is_installed(place)


def _iterate_addresses(spec: RunSpec) -> Iterator[tuple[str, str]]:
    if spec.architecture.name not in ARCHITECTURES:
        yield "architecture.name", spec.architecture.name
    for name in spec.signals:
        if ":" in name:
            yield "signals", name


def _find_module(package: str) -> Path | None:
    """Return the file of a top-level module; None if it is not found, or built in."""
    try:
        found = find_spec(package)
    except (ImportError, ValueError):  # no name of a module, or that of the running program
        return None
    if found is None:
        return None
    places = list(found.submodule_search_locations or ())
    origin = places[0] if places else found.origin if found.has_location else None
    return None if origin is None else Path(origin).resolve()


def _is_installed(place: Path) -> bool:
    """Return whether a file came with Python or a package, also below a spec's folder."""
    paths = sysconfig.get_paths()
    roots = {Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    roots |= {Path(entry).resolve() for entry in sys.path if entry.endswith("-packages")}
    return any(place.is_relative_to(root) for root in roots)
