"""The commands as people call them: real processes for the start, a runner for the rest."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from rote.selection import RULES, describe_rule, select
from tests.cli.conftest import Rote

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("commands")]

ROTE = Path(sys.executable).parent / "rote"
SPEC = """
name = "small"
epochs = 3
batch = 64
[noise]
model = "symmetric-inclusive"
rate = 0.5
[architecture]
name = "mlp"
[architecture.options]
width = 16
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "spec.toml").write_text(SPEC)
    invoke("train", str(folder / "spec.toml"), "--out", str(folder / "a"), "--quiet")
    return folder / "a"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([ROTE, *arguments], capture_output=True, text=True, check=False)


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_train_writes_a_run_and_is_done_when_called_again(trained: Path, rote: Rote) -> None:
    journal = (trained / "journal.jsonl").read_bytes()
    assert len(journal.splitlines()) == 3
    said = rote("train", trained.parent / "spec.toml", "--out", trained, "--quiet")
    assert said.code == 0
    assert (trained / "journal.jsonl").read_bytes() == journal


def test_select_prints_the_object_that_machines_read(trained: Path) -> None:
    found = json.loads(invoke("select", str(trained), "--rule", "staged", "--json"))
    assert {"rule", "thresholds", "pick", "regions", "reasons", "warnings"} <= set(found)
    assert found["rule"] == "staged"
    assert {"run", "step", "susceptibility", "train_accuracy", "region"} <= set(found["pick"])
    assert found["pick"]["file"] is None or Path(found["pick"]["file"]).is_file()
    assert [region["region"] for region in found["regions"]] == [1, 2, 3, 4]
    assert sum(region["count"] for region in found["regions"]) == 3
    assert "test_accuracy" in found["regions"][0]
    assert any("checkpoints" in warning for warning in found["warnings"])


def test_select_explains_its_choice(trained: Path) -> None:
    output = invoke("select", str(trained), "--rule", "last")
    assert "step 3 of small" in output.splitlines()[0]
    assert "step-00003.safetensors" in output
    assert "regions" in invoke("select", str(trained), "--rule", "help")


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path, rote: Rote) -> None:
    done = run("select", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("Error: No runs in ")
    assert "Traceback" not in done.stderr
    bad = tmp_path / "bad.toml"
    bad.write_text('epochs = 3\n[optimizer]\nname = "sgd"\nlr = -1\n')
    said = rote("train", bad, "--out", tmp_path / "run")
    assert said.code == 2
    assert "line 4" in said.err
    assert "optimizer.lr" in said.err
    assert not (tmp_path / "run").exists()


def test_data_lists_and_checks(tmp_path: Path, rote: Rote) -> None:
    assert "fashion_mnist" in invoke("data", "list")
    names = [entry["name"] for entry in json.loads(invoke("data", "list", "--json"))]
    assert "digits" in names
    (tmp_path / "x.npz").write_bytes(b"no zip")
    said = rote("data", "check", tmp_path / "x.npz")
    assert said.code in (1, 2)
    assert "x.npz" in said.out


def test_doctor_checks_the_installation_and_a_model() -> None:
    output = invoke("doctor", "--model", "mlp", "--optimizer", "Adam", "--shape", "1,8,8")
    assert "torch" in output
    assert "mlp with Adam can be probed" in output
    assert "state was restored" in output
    assert output.splitlines()[-1] == (
        "Everything is fine: all required packages are installed, and mlp can be probed."
    )
    with pytest.raises(InputError, match="Expected `--shape` to be like 3,32,32, got 'x'"):
        invoke("doctor", "--model", "mlp", "--shape", "x")
    with pytest.raises(InputError, match="to be a class of torch.optim"):
        invoke("doctor", "--model", "mlp", "--shape", "1,8,8", "--optimizer", "Nope")


def test_doctor_says_why_a_model_cannot_be_probed(tmp_path: Path, rote: Rote) -> None:
    body = "return nn.Sequential(nn.Flatten(), nn.Linear(192, 3))"
    text = f"from torch import nn\ndef make():\n    {body}\n"
    (tmp_path / "their_model.py").write_text(text)  # where the command is called
    said = rote("doctor", "--model", "their_model:make", "--shape", "3,8,8")
    assert said.code == 1
    assert "cannot be probed. Expected the model's logits to have num_classes = 10" in said.err
    assert said.out.splitlines()[-1] == (
        "Problems found: their_model:make cannot be probed. See above."
    )
    said = rote("doctor", "--model", "torch.nn:Identity", "--shape", "3,8,8")
    assert said.code == 2
    assert "SGD cannot be built from this model's parameters: ValueError: optimizer got" in said.err


@pytest.mark.parametrize("command", ["select", "report", "probe"])
def test_brackets_in_help_are_no_markup(command: str) -> None:
    assert "mlflow:EXPERIMENT[@uri]" in invoke(command, "--help")


def test_a_warning_is_one_line_that_names_no_code(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC + "[optimizer]\nname = 'sgd'\nlr = 1e30\n")
    done = run("train", str(spec), "--out", str(tmp_path / "run"), "--quiet")
    warned = [line for line in done.stderr.splitlines() if "not finite" in line]
    assert warned
    assert all(line.startswith("Warning: ") for line in warned)
    assert "site-packages" not in done.stderr
    assert ".py" not in done.stderr


def test_the_demo_checks_its_options_before_it_trains(tmp_path: Path, rote: Rote) -> None:
    for option, message in {
        ("--column", "zeta"): "Expected `--column` to be one of susceptibility,",
        ("--workers", "0"): "Expected `workers` to be an integer of at least 1, got 0.",
    }.items():
        said = rote("demo", "--out", tmp_path / "out", *option)
        assert said.code == 2
        assert message in said.err
        assert not said.out
    assert not (tmp_path / "out").exists()


def demo(out: Path) -> list[str]:
    """What a short demo prints in percent, once it has been looked through."""
    done = run("demo", "--out", str(out), "--epochs", "2", "--quiet", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout.replace("\n", "")
    assert (out / "report.html").is_file()
    last = "\n".join(done.stdout.splitlines()[-24:])
    pick = select(out).pick
    assert f"step {pick.step} of {pick.run}\n{pick.file}" in last
    assert pick.file is not None
    for row in ("Estimated accuracy", "vs last checkpoint", "Test accuracy", "Label noise"):
        assert row in last
    for rule in ("regions", "posterior", "oracle"):
        assert describe_rule(RULES[rule]).explanation[:20] in done.stdout
    return [line for line in done.stdout.splitlines() if "%" in line and "resampled" not in line]


def test_the_demo_compares_every_rule(tmp_path: Path) -> None:
    shown = demo(tmp_path / "a")
    assert len(list((tmp_path / "a").glob("*/journal.jsonl"))) >= 24
    for rule in ("regions", "staged", "consensus", "noisy-validation", "last", "oracle"):
        assert any(rule in line for line in shown)


@pytest.mark.full
def test_the_demo_repeats_itself(tmp_path: Path) -> None:
    assert demo(tmp_path / "a") == demo(tmp_path / "b")  # trained anew
