"""The checker itself, on optimizers that need no other package than torch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("compat")]

ROOT = Path(__file__).parents[2]


def compat(folder: Path, *optimizers: str, seconds: int = 60) -> subprocess.CompletedProcess[str]:
    # A process of its own: forks of one that has called backward cannot call it again.
    named = [word for path in optimizers for word in ("--optimizer", path)]
    places = ["--results", folder / "results.jsonl", "--page", folder / "page.md"]
    command = [sys.executable, "-m", "compat", *named, *places, "--seconds", str(seconds)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def lines(folder: Path) -> dict[str, dict[str, Any]]:
    found = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
    return {line["name"]: line for line in found}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("compat")
    odd = "tests.compat.odd_optimizers"
    done = compat(
        folder,
        "torch.optim:SGD",
        "torch.optim:LBFGS",
        *(f"{odd}:{name}" for name in ("CountsElsewhere", "FailsLater", "CannotBeBuilt")),
    )
    return folder, done.returncode


@pytest.mark.parametrize(
    ("name", "verdict", "why"),
    [
        ("SGD", "same", ""),
        ("LBFGS", "same", ""),
        ("CountsElsewhere", "CHANGED", "model._modules['conv']._parameters['weight']"),
        ("FailsLater", "TRACEBACK", "ZeroDivisionError: a step too many"),
        ("CannotBeBuilt", "unbuilt", "OSError: no such device"),
    ],
)
def test_an_optimizer_is_judged(tried: tuple[Path, int], name: str, verdict: str, why: str) -> None:
    line = lines(tried[0])[name]
    assert line["verdict"] == verdict
    assert why in line["why"]


def test_the_page_counts_and_lists_them(tried: tuple[Path, int]) -> None:
    folder, code = tried
    page = (folder / "page.md").read_text()
    assert code == 1
    assert "| **all** | 5 | 2 | 0 | 1 | 1 | 1 |" in page
    assert "`FailsLater`: ZeroDivisionError: a step too many\n\n```text\nTraceback" in page


def test_finished_checks_are_not_repeated(tried: tuple[Path, int]) -> None:
    before = lines(tried[0])
    again = compat(tried[0], "torch.optim:SGD", "torch.optim:Adam")
    assert "1/2" not in again.stdout
    assert "2/2 torch.optim Adam: same" in again.stdout
    assert lines(tried[0]) == before | {"Adam": lines(tried[0])["Adam"]}


def test_hanging_checks_are_killed(tmp_path: Path) -> None:
    done = compat(tmp_path, "tests.compat.odd_optimizers:Hangs", seconds=2)
    assert done.returncode == 0
    assert lines(tmp_path)["Hangs"]["verdict"] == "unbuilt"
    assert "no answer within 2 s" in lines(tmp_path)["Hangs"]["why"]
