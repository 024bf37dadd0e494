import math
import re
import runpy
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = (
    "accumulation_digits",
    "amp_digits",
    "compile_digits",
    "accelerate_digits",
    "graph_nodes",
)


def graphs_compiled() -> int:
    return torch._dynamo.utils.counters["stats"].get("unique_graphs", 0)


def forget_compilations() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@pytest.fixture(autouse=True)
def _fresh_start(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr("sys.argv", ["example"])
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    forget_compilations()
    if "accelerate_digits" in request.node.name:
        state = pytest.importorskip("accelerate.state", reason="needs rote[huggingface]")
        state.AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize("name", NAMES[1:])
def test_an_example_prints_zeta(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    rows = capsys.readouterr().out.splitlines()
    zeta = [float(re.findall(r"ζ (\S+)", row)[-1]) for row in rows]
    assert [row.split()[1] for row in rows] == ["5", "10", "15", "20"]
    assert all(math.isfinite(value) and value > 0 for value in zeta)
    assert zeta[-1] > zeta[0]


def test_the_schedule_hides_memorization_from_the_live_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(EXAMPLES / "accumulation_digits.py"), run_name="__main__")
    page = (EXAMPLES.parent / "docs" / "loops.md").read_text()
    written = re.findall(r"^epoch .*ζ (\S+)  plain ζ (\S+)$", page, flags=re.MULTILINE)
    printed = re.findall(r"ζ (\S+)  plain ζ (\S+)", capsys.readouterr().out)
    assert len(written) == len(printed) == 4
    for mine, theirs in zip(printed, written, strict=True):
        assert [float(value) for value in mine] == pytest.approx(
            [float(v) for v in theirs], rel=0.1
        )
    live, plain = zip(*[(float(a), float(b)) for a, b in printed], strict=True)
    assert live[-1] < live[0]
    assert plain[-1] > plain[0]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_trains_the_same_network_without_probes(name: str) -> None:
    train = runpy.run_path(str(EXAMPLES / f"{name}.py"))["train"]
    probed = train(probes=True).state_dict()
    compiled = graphs_compiled()
    forget_compilations()
    bare = train(probes=False).state_dict()
    assert all(torch.equal(probed[key], bare[key]) for key in bare)
    assert compiled == graphs_compiled() == (name == "compile_digits")


@pytest.mark.parametrize("name", [*NAMES, "huggingface_text"])
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 60


def test_the_trainer_memorizes_and_zeta_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="needs rote[huggingface]")
    run = runpy.run_path(str(EXAMPLES / "huggingface_text.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    rows = [row.split() for row in printed if row.startswith("epoch")]
    assert [row[1] for row in rows] == ["5", "10", "15", "20"]
    assert [float(row[4]) for row in rows] == sorted(float(row[4]) for row in rows)
    assert float(rows[-1][-1].rstrip("%")) > 80  # half of the labels are random: memorized
    history = run["trainer"].state.log_history
    assert sum("susceptibility" in entry for entry in history) == 20
