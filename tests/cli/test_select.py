"""`rote select` on sources, with other people's names."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from rote.selection import RULES
from tests.loggers import log, readings

CSV = "run,step,zeta,acc\n" + "".join(
    f"{run},{step},{0.1 * step * (1 + run)},{0.1 * step}\n"
    for run in range(2)
    for step in range(1, 9)
)


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["select", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_metrics_of_other_names_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    source = f"csv:{tmp_path}/t.csv"
    pairs = ("--map", "susceptibility=zeta", "--map", "train_accuracy=acc")
    found = json.loads(invoke(source, *pairs, "--rule", "last", "--json"))
    assert found["pick"]["step"] == 8
    assert sum(region["count"] for region in found["regions"]) == 16
    with pytest.raises(InputError, match="`susceptibility` to be recorded"):
        invoke(source)


def test_rules_are_listed_without_runs_and_nothing_else_is() -> None:
    listed = [line.split()[0] for line in invoke("--rule", "help").splitlines()]
    assert listed == [*RULES, "max:COLUMN", "min:COLUMN"]
    with pytest.raises(InputError, match="Expected runs, such as a folder of run directories, got"):
        invoke()


def _without_paths(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("  in ")]


def test_the_same_runs_in_tensorboard_print_the_same(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    for seed in range(3):
        targets = [tmp_path / "own" / str(seed), f"tensorboard:{tmp_path}/tb"]
        log(targets, readings(seed), name=f"run{seed}")
    theirs, ours = invoke(f"tensorboard:{tmp_path}/tb"), invoke(str(tmp_path / "own"))
    assert _without_paths(theirs) == _without_paths(ours)
    assert f"  in {tmp_path}/own/" in ours


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["susceptibility"], "Expected `--map` to be NAME=METRIC, got 'susceptibility'"),
        (["drop=a", "drop=b"], "Expected `--map` to give 'drop' once, got it twice"),
    ],
)
def test_a_bad_pair_is_refused(tmp_path: Path, pairs: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        invoke(str(tmp_path), *(word for pair in pairs for word in ("--map", pair)))
