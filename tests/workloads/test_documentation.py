import doctest
from pathlib import Path

import pytest

from rote.workloads.loop import train
from rote.workloads.spec import RunSpec

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "examples" / "specs").glob("*.toml"))
SHARED = ROOT.parent / "shared" / "data"


def test_the_page_about_workloads_runs() -> None:
    result = doctest.testfile(str(ROOT / "docs" / "workloads.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_page_on_steps_after_the_verdict_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = ROOT / "docs" / "after-the-verdict.md"
    result = doctest.testfile(str(path), module_relative=False)
    assert result.attempted > 3
    assert result.failed == 0


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_examples_are_valid(path: Path) -> None:
    assert RunSpec.from_toml(path).epochs >= 20


def shortened(name: str) -> RunSpec:
    spec = RunSpec.from_toml(ROOT / "examples" / "specs" / f"{name}.toml")
    return RunSpec.from_dict(spec.to_dict() | {"epochs": 4})


def test_the_first_example_trains() -> None:
    readings = train(shortened("digits")).readings
    assert readings[-1].metrics["test_accuracy"] > 0.3


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no real data at {SHARED}")
def test_real_texts_with_real_noise_train() -> None:
    run = train(shortened("text"), data_dir=SHARED)
    assert run.description["data"]["noise"]["realized_rate"] == pytest.approx(0.333, abs=1e-3)
    assert run.readings[-1].metrics["test_accuracy"] > 0.5
