"""The names people use, and what importing them costs."""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import rote

pytestmark = pytest.mark.slow

LIGHT = (
    *("rote", "rote.errors", "rote.records", "rote.store", "rote.theory"),
    *("rote.workloads.architectures", "rote.cli.main"),
)


def modules_loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_light_modules_do_not_import_torch() -> None:
    told = [f"import {name}; assert 'torch' not in sys.modules, '{name}'" for name in LIGHT]
    assert set(LIGHT) <= modules_loaded_by("\n".join(told))


HEAVY = {"torch", "numpy", "polars", "scipy", "sklearn", "altair", "jinja2", "typer", "rich"}


def test_import_rote_loads_no_dependency() -> None:
    assert HEAVY.isdisjoint(modules_loaded_by("import rote"))
    assert "numpy" in modules_loaded_by("import rote; rote.select")  # the names above are right


def test_check_above_can_fail(tmp_path: Path) -> None:
    (tmp_path / "torch.py").touch()  # the real one takes seconds to import
    statement = f"sys.path.insert(0, {str(tmp_path)!r}); import torch; import rote"
    assert {"torch", "rote"} <= modules_loaded_by(statement)


def test_every_public_name_is_there() -> None:
    for name in rote.__all__:
        assert getattr(rote, name) is not None
        assert name in dir(rote)


def test_every_room_is_reached_by_its_name() -> None:
    rooms = [room.parent.name for room in Path(rote.__file__).parent.glob("*/__init__.py")]
    reached = "; ".join(f"rote.{room}" for room in rooms if room != "cli")
    loaded = modules_loaded_by(f"import rote; {reached}")
    assert {f"rote.{room}" for room in rooms if room != "cli"} <= loaded


ROOMS = [room.parent.name for room in sorted(Path(rote.__file__).parent.glob("*/__init__.py"))]


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_there(room: str) -> None:
    module = import_module(f"rote.{room}")
    for name in getattr(module, "__all__", []):
        assert getattr(module, name) is not None, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rote' has no attribute 'nothing'"):
        _ = rote.nothing


def test_dir_has_public_names_and_rooms_only() -> None:
    listed = set(dir(rote))
    assert set(rote.__all__) <= listed
    assert not {"Any", "TYPE_CHECKING", "import_module"} & listed
    assert not [name for name in listed if name.startswith("_") and name != "__version__"]


SECTIONS = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example):$", re.MULTILINE)


# Their examples need an Optuna study with runs: docs/tuning.md has them, and the tests run it.
WITHOUT = {f"rote.sweeps.{name}" for name in ("judge_trial", "make_pruner", "report_trial")}


def find_public_objects() -> dict[str, object]:
    """Return every function and class in a public ``__all__``, by one of its names."""
    found: dict[int, tuple[str, object]] = {}
    for address in ("rote", *(f"rote.{room}" for room in ROOMS)):
        module = import_module(address)
        for name in getattr(module, "__all__", ()):
            value = inspect.unwrap(getattr(module, name))
            if inspect.isfunction(value) or inspect.isclass(value):
                found.setdefault(id(value), (f"{address}.{name}", value))
    return dict(sorted(found.values()))


def find_missing_sections(value: object) -> list[str]:
    """Return what the docstring of a public function or class lacks."""
    has = set(SECTIONS.findall(inspect.getdoc(value) or ""))
    node = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]  # type: ignore[arg-type]
    needs = []
    if isinstance(node, ast.FunctionDef):
        if inspect.signature(value).parameters:  # type: ignore[arg-type]
            needs.append({"Args"})
        if node.returns is not None and ast.unparse(node.returns) not in ("None", "Iterator[None]"):
            needs.append({"Returns", "Yields"})
        if any(isinstance(part, ast.Raise) and part.exc is not None for part in ast.walk(node)):
            needs.append({"Raises"})
    elif is_dataclass(value):
        needs.append({"Args", "Attributes"})
    needs.append({"Example"})
    lacking = [" or ".join(sorted(names)) for names in needs if not names & has]
    return lacking if ">>>" in (inspect.getdoc(value) or "") else [*lacking, ">>>"]


def test_public_names_are_documented_with_an_example() -> None:
    lacking = {name: find_missing_sections(value) for name, value in find_public_objects().items()}
    assert len(lacking) > 100
    assert {name: parts for name, parts in lacking.items() if parts and name not in WITHOUT} == {}


def test_a_public_name_without_the_parts_is_found() -> None:
    def convert(value: int) -> int:
        """Convert a value."""
        if value < 0:
            raise ValueError(value)
        return value

    assert find_missing_sections(convert) == [
        "Args",
        "Returns or Yields",
        "Raises",
        "Example",
        ">>>",
    ]
