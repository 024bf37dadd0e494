"""What is said of dependencies and of the wheel is consistent."""

import tomllib
import zlib
from pathlib import Path

import pytest

import rote
from rote.cli import doctor

requirements = pytest.importorskip("packaging.requirements", reason="needs packaging")

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


def versions(lines: list[str], operator: str) -> dict[str, str]:
    """Return, by package, the version after an operator, without trailing ``.0``."""
    found = {}
    for line in lines:
        requirement = requirements.Requirement(line)
        (version,) = (
            entry.version for entry in requirement.specifier if entry.operator == operator
        )
        found[requirement.name] = version.removesuffix(".0")
    return found


def test_the_group_lowest_pins_every_lower_bound() -> None:
    pins = [line for line in PROJECT["dependency-groups"]["lowest"] if isinstance(line, str)]
    assert versions(pins, "==") == versions(PROJECT["project"]["dependencies"], ">=")


def test_the_extra_all_has_every_integration_that_installs_with_the_others() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = (requirements.Requirement(line) for line in extras["all"])
    assert everything.extras == set(extras) - {"all", "fastai", "trackio"}


def test_every_supported_python_has_a_classifier_and_a_job() -> None:
    classifiers = PROJECT["project"]["classifiers"]
    named = [line.rpartition(" ")[2] for line in classifiers if ":: 3." in line]
    assert f">={named[0]}" == PROJECT["project"]["requires-python"]
    workflow = Path(__file__).parents[1] / ".github" / "workflows" / "test.yml"
    assert ", ".join(f'"{version}"' for version in named) in workflow.read_text(encoding="utf-8")


def test_doctor_names_every_dependency_and_every_package_of_an_extra() -> None:
    named = {requirements.Requirement(line).name for line in PROJECT["project"]["dependencies"]}
    assert set(doctor.CORE) == named
    extras = PROJECT["project"]["optional-dependencies"]
    brought = {
        requirements.Requirement(line).name: extra
        for extra, lines in extras.items()
        if extra != "all"
        for line in lines
    }
    assert brought == doctor.EXTRAS  # of two extras, the one that brings the package alone


def test_the_architecture_says_how_large_the_packed_records_are() -> None:
    folder = Path(rote.__file__).parent / "studies" / "records"
    size = sum(len(zlib.compress(file.read_bytes())) for file in folder.iterdir())
    page = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert f"of which {size / 1e6:.1f} MB are study records" in page
