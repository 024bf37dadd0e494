"""`rote select` on sources, with other people's names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from rote.records import Reading
from rote.selection import RULES
from rote.store import RunDirectory
from tests.loggers import log, readings

ROTE = Path(sys.executable).parent / "rote"
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


def journal(path: Path, described: bool) -> None:
    columns = {"gwa": {"label": "gradient alignment", "better": "higher", "kind": "signal"}}
    for name, values in {"a": (0.25, 0.5), "b": (0.75, 0.125)}.items():
        description = {"name": name} | ({"columns": columns} if described else {})
        directory = RunDirectory.create(path / name, description)
        for row, value in enumerate(values):
            reading = Reading(row + 1, 2.0, 1.0, 1.0, 0.5, 0.25, metrics={"gwa": value})
            directory.append(reading, row)
        directory.close()


@pytest.mark.parametrize("described", [True, False])
def test_any_recorded_column_can_be_selected_by(tmp_path: Path, described: bool) -> None:
    journal(tmp_path, described)
    found = json.loads(invoke(str(tmp_path), "--rule", "max:gwa", "--json"))
    assert (found["rule"], found["pick"]["run"], found["pick"]["step"]) == ("max:gwa", "b", 1)
    words = " ".join(invoke(str(tmp_path), "--rule", "min:gwa").split())
    assert "Keep step 2 of run b" in words
    assert ("the lowest gradient alignment (`gwa`)" in words) == described
    assert ("`min:gwa` keeps the worst" in words) == described


def test_a_column_of_the_runs_can_be_mapped_to(tmp_path: Path) -> None:
    journal(tmp_path / "runs", described=True)
    (tmp_path / "t.csv").write_text("run,step,alignment\nc,1,0.5\nc,2,0.875\n")
    sources = (str(tmp_path / "runs"), f"csv:{tmp_path}/t.csv")
    found = json.loads(invoke(*sources, "--map", "gwa=alignment", "--rule", "max:gwa", "--json"))
    assert (found["pick"]["run"], found["pick"]["step"]) == ("c", 2)
    with pytest.raises(InputError, match=r"`mapping` to go from .*, got 'gwaa'. Did you mean 'gwa"):
        invoke(*sources, "--map", "gwaa=alignment", "--rule", "max:gwa")


RULE = '''
class Second:
    """The second checkpoint of all."""
    name, needs, compares_runs = "second", ("gwa",), False

    def judge(self, candidates):
        from rote.selection import Verdict
        return Verdict(1, (f"gwa is {candidates.values('gwa')[1]}.",))
'''


def test_a_rule_of_ones_own_is_used_from_the_command_line(tmp_path: Path) -> None:
    journal(tmp_path / "runs", described=False)
    (tmp_path / "my_rules.py").write_text(RULE)
    command: list[str | Path] = [ROTE, "select", tmp_path / "runs", "--rule", "my_rules:Second"]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Keep step 2 of run a" in done.stdout
    assert "gwa is 0.5." in done.stdout
    command[-1] = "my_rules:Third"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert "to have 'Third' for `rule`, got nothing" in done.stderr


def test_accuracies_in_per_cent_are_printed_as_recorded(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV.replace("zeta,acc", "susceptibility,train_accuracy"))
    text = (tmp_path / "t.csv").read_text().splitlines()
    rows = [line.rsplit(",", 1) for line in text[1:]]
    scaled = [f"{start},{100 * float(end)}" for start, end in rows]
    (tmp_path / "t.csv").write_text("\n".join([text[0], *scaled]))
    shown = invoke(f"csv:{tmp_path}/t.csv")
    assert "0%" not in shown
    assert "Divide per cent by 100" in " ".join(shown.split())
