"""`rote select` on sources, with other people's names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.cli.options import read_labels
from rote.errors import GuessedNamesWarning, InputError
from rote.records import Reading
from rote.selection import RULES, select
from rote.store import RunDirectory, get_checkpoint_path
from tests.loggers import log, readings
from tests.selection.tables import write_voters

pytestmark = pytest.mark.slow

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
    with pytest.warns(GuessedNamesWarning, match="susceptibility=zeta, train_accuracy=acc"):
        guessed = json.loads(invoke(source, "--rule", "last", "--json"))
    assert guessed["pick"] == found["pick"]


def test_verdict_shows_how_high_zeta_of_the_pick_is(tmp_path: Path) -> None:
    rows = [f"{n},{0.1 * n},{z},0.8\n" for n, z in enumerate((0.02, 0.01, 0.03), start=1)]
    named = "step,susceptibility,susceptibility_plain_relative,train_accuracy\n"
    (tmp_path / "t.csv").write_text(named + "".join(rows))
    said = " ".join(invoke(f"csv:{tmp_path}/t.csv", "--rule", "last", "--explain").split())
    assert (
        "ζ is 0.3: one reference step on random labels lowers their loss by 3.00% on "
        "average (3.0× this run's minimum at step 2)." in said
    )
    assert " test " not in invoke(f"csv:{tmp_path}/t.csv", "--rule", "staged")


def test_no_highest_accuracy_without_training_accuracy(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("run,step,loss\nb,1,2\na,1,3\n")
    told = invoke(f"csv:{tmp_path}/t.csv", "--rule", "last", "--explain")
    said = " ".join(told.split())
    assert "Tentative: step 1 of a" in said
    assert "this is the first by name" in said
    assert "highest training accuracy" not in said


def test_rules_are_listed_without_runs_and_nothing_else_is() -> None:
    listed = [line.split()[0] for line in invoke("--rule", "help").splitlines()]
    assert listed == [*RULES, "max:COLUMN", "min:COLUMN"]
    with pytest.raises(InputError, match="No runs given"):
        invoke()


def _without_paths(text: str) -> list[str]:
    return [line for line in text.splitlines() if "/" not in line]


def test_the_same_runs_in_tensorboard_print_the_same(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    for seed in range(3):
        targets = [tmp_path / "own" / str(seed), f"tensorboard:{tmp_path}/tb"]
        log(targets, readings(seed), name=f"run{seed}")
    theirs, ours = invoke(f"tensorboard:{tmp_path}/tb"), invoke(str(tmp_path / "own"))
    assert _without_paths(theirs) == _without_paths(ours)
    assert f"{tmp_path}/own/" in ours


@pytest.mark.parametrize(
    ("option", "pairs", "message"),
    [
        ("--map", ["susceptibility"], "`--map` to be NAME=METRIC, got 'susceptibility'"),
        ("--map", ["drop=a", "drop=b"], "`--map` sets 'drop' twice"),
        ("--where", ["data.name"], "`--where` to be KEY=VALUE, got 'data.name'"),
        ("--where", ["=digits"], "`--where` to be KEY=VALUE, got '=digits'"),
        ("--where", ["data.name="], "`--where` to be KEY=VALUE, got 'data.name='"),
        ("--where", ["a=1", "a=2"], "`--where` sets 'a' twice"),
    ],
)
def test_a_bad_pair_is_refused(tmp_path: Path, option: str, pairs: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        invoke(str(tmp_path), *(word for pair in pairs for word in (option, pair)))


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
    words = " ".join(invoke(str(tmp_path), "--rule", "min:gwa", "--explain").split())
    assert "step 2 of b" in words
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
        from rote.selection import Decision
        return Decision(1, (f"gwa is {candidates.values('gwa')[1]}.",))
'''


def test_user_rule_is_used_from_the_command_line(tmp_path: Path) -> None:
    journal(tmp_path / "runs", described=False)
    (tmp_path / "my_rules.py").write_text(RULE)
    command: list[str | Path] = [ROTE, "select", tmp_path / "runs", "--rule", "my_rules:Second"]
    command.append("--explain")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "step 2 of a" in done.stdout
    assert "gwa is 0.5." in done.stdout
    command[-2] = "my_rules:Third"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert "has no 'Third' (`rule`)" in done.stderr


def test_accuracies_in_percent_are_printed_as_recorded(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV.replace("zeta,acc", "susceptibility,train_accuracy"))
    text = (tmp_path / "t.csv").read_text().splitlines()
    rows = [line.rsplit(",", 1) for line in text[1:]]
    scaled = [f"{start},{100 * float(end)}" for start, end in rows]
    (tmp_path / "t.csv").write_text("\n".join([text[0], *scaled]))
    shown = invoke(f"csv:{tmp_path}/t.csv")
    assert "0%" not in shown
    assert "Divide percent by 100" in " ".join(shown.split())


def test_percent_is_divided(tmp_path: Path) -> None:
    lines = CSV.replace("zeta,acc", "susceptibility,train_accuracy").splitlines()
    rows = [line.rsplit(",", 1) for line in lines[1:]]
    scaled = [f"{start},{100 * float(end)}" for start, end in rows]
    (tmp_path / "t.csv").write_text("\n".join([lines[0], *scaled]))
    found = json.loads(invoke(f"csv:{tmp_path}/t.csv", "--rule", "last", "--percent", "--json"))
    assert found["pick"]["train_accuracy"] == pytest.approx(0.8)
    assert not any("Divide" in warning for warning in found["warnings"])


def voters(root: Path, *, given: str | None = None, rates: tuple[float, ...] = ()) -> Path:
    """Three runs that agree on most of a holdout, with weights beside them."""
    rng = np.random.default_rng(3)
    truth = rng.integers(4, size=60)
    wrong = rng.random((3, 4, 60)) < 0.3
    write_voters(root, np.where(wrong, rng.integers(4, size=60), truth), 4)
    for number, run in enumerate(sorted(root.iterdir())):
        told = json.loads((run / "run.json").read_text())
        labels = given or " ".join(map(str, truth))
        (run / "run.json").write_text(json.dumps(told | {"given_labels": labels}))
        if rates:
            spec = {"spec": {"noise": {"rate": rates[number]}}}
            (run / "workload.json").write_text(json.dumps(spec))
        for step in range(1, 5):
            get_checkpoint_path(run, step).parent.mkdir(exist_ok=True)
            get_checkpoint_path(run, step).write_bytes(b"w%d" % step)
    return root


def test_the_best_few_are_listed_and_the_file_is_named_and_copied(tmp_path: Path) -> None:
    store = voters(tmp_path / "runs")
    out = tmp_path / "kept"
    shown = invoke(str(store), "--rule", "posterior", "--copy-to", str(out))
    pick = select(store, "posterior").pick
    assert str(pick.file) in shown
    assert "region" not in shown
    listed = [line for line in shown.splitlines() if line.startswith("  run")]
    assert len(listed) == 1 + 5  # and the heading
    (copy,) = out.iterdir()
    assert f"Copied to {copy}" in shown.replace("\n", "")
    assert pick.file is not None
    assert copy.read_bytes() == pick.file.read_bytes()
    found = invoke(str(store), "--rule", "posterior", "--copy-to", str(out), "--json")
    assert json.loads(found[: found.rindex("}") + 1])["pick"]["file"] == str(pick.file)
    copy.write_bytes(b"mine")
    asked = ["select", str(store), "--rule", "posterior", "--copy-to", str(out)]
    result = CliRunner().invoke(app, asked)
    assert "Another file exists" in str(result.exception)
    assert str(pick.file) in result.output  # the verdict stands


def test_the_selected_one_of_equal_checkpoints_is_listed_first(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    rows = [f"a,{step},{0.5 - step / 100},{0.6 + step / 100},0.7" for step in range(1, 9)]
    head = "run,step,susceptibility,train_accuracy,validation_accuracy"
    file.write_text("\n".join([head, *rows]) + "\n")
    printed = invoke(f"csv:{file}", "--rule", "noisy-validation")
    listed = [line.split()[1] for line in printed.splitlines() if line.startswith("  a ")]
    assert "Keep step 8 of a" in printed
    assert listed == ["8", "1", "2", "3", "4"]


def test_closed_pipe_does_not_prevent_the_copy(tmp_path: Path) -> None:
    store, out = voters(tmp_path / "runs"), tmp_path / "kept"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        subprocess.run(
            [ROTE, "select", store, "--copy-to", out],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert len(list(out.iterdir())) == 1


def test_options_go_to_rules_that_take_them_only(tmp_path: Path) -> None:
    store = str(voters(tmp_path / "runs"))
    assert "Keep" in invoke(store, "--rule", "posterior", "--noise-rate", "0.2")
    with pytest.raises(InputError, match="'last' has no option `noise_rate`. It has none"):
        invoke(store, "--rule", "last", "--noise-rate", "0.2")
    labels = tmp_path / "clean.txt"
    labels.write_text("1, 2\n-1")
    with pytest.raises(InputError, match="'last' has no option `clean_labels`"):
        invoke(store, "--rule", "last", "--clean-labels", str(labels))


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("a.txt", "1 x", "to be a file of integers"),
        ("a.txt", "", "to be a file of integers"),
        ("a.npy", "no array", "to be a file of integers"),
        ("gone.csv", None, "File not found"),
    ],
)
def test_a_bad_file_of_labels_is_refused(
    tmp_path: Path, name: str, contents: str | None, message: str
) -> None:
    if contents is not None:
        (tmp_path / name).write_text(contents)
    with pytest.raises(InputError, match=message):
        read_labels(tmp_path / name, "--clean-labels")


def test_labels_are_read_from_arrays_and_text(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, -1, 3], dtype=np.int8))
    (tmp_path / "a.csv").write_text("1;-1\n3\n")
    for name in ("a.npy", "a.csv"):
        assert read_labels(tmp_path / name, "--clean-labels").tolist() == [1, -1, 3]
    np.save(tmp_path / "b.npy", np.zeros((2, 2)))
    with pytest.raises(
        InputError, match=r"one integer per sample of the holdout, got float64 of sha"
    ):
        read_labels(tmp_path / "b.npy", "--clean-labels")


SUSPECTING = '''
class Suspecting:
    """It suspects two labels."""
    name, needs, compares_runs = "suspecting", (), False

    def judge(self, candidates):
        from rote.selection import Findings, Suspect, Decision
        suspects = (Suspect(4, 1, 0, 0.75), Suspect(2, 0, 3, 0.5))
        return Decision(0, ("So.",), findings=Findings(noise_rate=0.25, suspects=suspects))
'''


def test_suspects_are_written_by_rules_that_estimate_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_suspects.py").write_text(SUSPECTING)
    monkeypatch.syspath_prepend(tmp_path)
    store, out = str(voters(tmp_path / "runs")), tmp_path / "new" / "suspects.csv"
    shown = invoke(store, "--rule", "their_suspects:Suspecting", "--suspects", str(out))
    assert "(2 samples)" in shown
    lines = ["sample,given,believed,probability", "4,1,0,0.75", "2,0,3,0.5", ""]
    assert out.read_text().split("\n") == lines
    assert list(out.parent.iterdir()) == [out]
    with pytest.raises(InputError, match="Rule .last. does not estimate"):
        invoke(store, "--rule", "last", "--suspects", str(tmp_path / "other.csv"))
    assert not (tmp_path / "other.csv").exists()


def test_groups_are_refused_selected_and_printed_separately(tmp_path: Path) -> None:
    store = voters(tmp_path / "runs", rates=(0.25, 0.25, 0.5))
    third = sorted(store.iterdir())[2] / "run.json"
    third.write_text(json.dumps(json.loads(third.read_text()) | {"given_labels": "0"}))
    with pytest.raises(InputError, match=r"--where 'noise.rate=0.25' .* --group-by noise.rate"):
        invoke(str(store), "--rule", "last")
    assert "step 4" in invoke(str(store), "--rule", "last", "--where", "noise.rate=0.5")
    shown = invoke(str(store), "--rule", "last", "--group-by", "noise.rate").splitlines()
    assert [line for line in shown if " = " in line] == ["noise.rate = 0.25", "noise.rate = 0.5"]
    assert sum(line.startswith("Tentative: step 4 of run") for line in shown) == 2
    found = json.loads(invoke(str(store), "--rule", "last", "--group-by", "noise.rate", "--json"))
    assert list(found["groups"]) == ["0.25", "0.5"]
    assert found["groups"]["0.5"]["pick"]["run"] == "run2"


def test_control_characters_in_names_are_escaped_in_the_terminal(tmp_path: Path) -> None:
    marks = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    name = f"\x1b[2J{marks}[bold]x"
    rows = "".join(f"{name},{step},0.{step},0.{step}\n" for step in range(1, 4))
    (tmp_path / "t.csv").write_text(f"run,step,susceptibility,train_accuracy\n{rows}")
    for rule in ("last", "pareto", "staged"):
        shown = invoke(f"csv:{tmp_path}/t.csv", "--rule", rule)
        assert "[bold]x" in shown
        assert "\x1b" not in shown
        assert not set(marks) & set(shown)
