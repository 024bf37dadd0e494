"""What pyproject.toml says of dependencies is consistent."""

import tomllib
from pathlib import Path

import pytest

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
