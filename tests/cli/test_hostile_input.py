"""What is wrong is said in one line, with exit code 1 or 2; nothing hangs, and nobody is fooled."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

from rote.cli.main import app
from rote.workloads import RunSpec, train
from rote.workloads.architectures import build_architecture
from tests.cli.conftest import Rote, in_one_process

pytestmark = pytest.mark.slow

SMALL = """
epochs = 2
data = { name = "digits", train_size = 60, test_size = 20 }
architecture = { name = "mlp", options = { width = 8 } }
"""


DIGITS = "9" * 400
SPECS = {
    "epochs of 400 digits": (f"epochs = {DIGITS}", "`epochs` .* got an integer of about 400 dig"),
    "lr of 400 digits": (
        f"[optimizer]\nname = 'sgd'\nlr = {DIGITS}",
        "`optimizer.lr` to be a number .* 400 dig",
    ),
    "number of 5000 digits": (f"epochs = {'9' * 5000}", "is not valid TOML: .*4300"),
    "options of 400 digits": (
        f"[architecture]\nname = 'mlp'\noptions = {{ width = {DIGITS} }}",
        "`architecture.options` holds a value",
    ),
    "NaN width": (
        "[architecture]\nname = 'mlp'\noptions = { width = nan }",
        "`architecture.options` holds a value .* nan",
    ),
    "infinite lr": ("[optimizer]\nname = 'sgd'\nlr = inf", "`optimizer.lr` .* got inf"),
    "name with NUL": ('name = "a\\u0000b"', "`name` to be text .* got 'a.x00b'"),
    "deep brackets": (f"epochs = {'[' * 100_000}", "nests tables or lists too deeply"),
    "deep value": (f"epochs = {'[' * 60}{']' * 60}", "`epochs` to be an integer .* got \\["),
    "long text": (f"epochs = '{'x' * 1_000_000}'", "`epochs` to be an integer"),
    "long field": (f"{'x' * 100_000} = 1", "`x+…` is not a field"),
    "long list": (f"epochs = [{'1,' * 100_000}]", "`epochs` to be an integer"),
    "not UTF-8": (b"name = '\xff\xfe'", "Cannot read "),
    "name that leads out": ('name = "../../x"', "line 1: `name` leads out of runs"),
    "absolute name": ('name = "/tmp/x"', "line 1: `name` leads out of runs"),
    "name of a novel": (f"name = '{'x' * 5000}'", "`name` to be text of at most 1000 char"),
    "many layers": (
        "[architecture]\nname = 'mlp'\noptions = { depth = 10000000 }",
        "`depth` to be an integer of at least 1 and at most 1000, got 10000000",
    ),
    "many convolutions": (
        "[architecture]\nname = 'cnn'\noptions = { depth = 10000000 }",
        "`depth` to be an integer of at least 1 and at most 1000",
    ),
    "wide": (
        "[architecture]\nname = 'mlp'\noptions = { width = 1000000 }",
        "'mlp' to have at most 1,000,000,000 weights, got 1,000,0",
    ),
    "large scale": (
        "architecture = { name = 'resnet18', scale = 1e9 }",
        "failed with|weigh",
    ),
    "larger scale": (
        "architecture = { name = 'resnet18', scale = 1e300 }",
        "failed with",
    ),
    "large crop": ("data = { name = 'digits', crop = 1000000000 }", "`data.crop` to be at most 8"),
    "nobody's home": (
        "data = { name = 'npz', path = '~nobody-of-this-name/x.npz' }",
        "`data.path` to be a path",
    ),
}


@pytest.mark.parametrize("case", SPECS)
def test_impossible_spec_is_refused_in_one_line(case: str, rote: Rote, tmp_path: Path) -> None:
    import re

    text, message = SPECS[case]
    file = tmp_path / "spec.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    said = rote.refuses("train", file, "--quiet")
    assert re.search(message, said), said
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "runs"] == ["spec.toml"]


SWEEPS = {
    "10^9 runs": (
        "[grid]\n"
        + "\n".join(f"{f} = {list(range(1, 1001))}" for f in ("seed", "epochs", "batch")),
        "`grid` makes 1000000000 runs, more than 1,000,000",
    ),
    "10^9 draws": (
        "[sample]\ncount = 1000000000\ndraw = { seed = { integers = [0, 9] } }",
        "`sample.count` makes 1000000000 runs, more than 1,000,000",
    ),
    "ends of 400 digits": (
        f"[sample]\ncount = 1\ndraw = {{ seed = {{ integers = [0, {DIGITS}] }} }}",
        "to be two numbers",
    ),
    "a name of gigabytes": (
        "name = '{seed:9999999999}'\n[grid]\nseed = [1]",
        "`name` to be a pattern of fields, with widths below 100",
    ),
    "a name as wide as a field says": (
        "name = '{seed:{epochs}}'\n[grid]\nepochs = [1000000000]",
        "`name` to be a pattern of fields, with widths below 100",
    ),
    "a name that looks behind": (
        "name = '{architecture.__class__}'\n[grid]\nseed = [1]",
        "`name` to be a pattern of fields",
    ),
    "a base that is a pipe": ("base = 'pipe'\n[grid]\nseed = [1]", "`base` to be a table or"),
}


@pytest.mark.parametrize("case", SWEEPS)
def test_impossible_sweep_is_refused_in_one_line(case: str, rote: Rote, tmp_path: Path) -> None:
    import re

    text, message = SWEEPS[case]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sweep.toml").write_text(text)
    said = rote.refuses("sweep", tmp_path / "sweep.toml", "--out", "store", "--quiet")
    assert re.search(message, said), said
    assert not (tmp_path / "store").exists()


SEEDED = {
    "train": ["spec.toml", "--out", "out", "--quiet"],
    "demo": ["--out", "out", "--epochs", "1", "--quiet"],
    "theory bounds": ["--out", "out", "--samples", "20"],
    "theory check": ["--samples", "20"],
    "probe": ["step-1.pt", "--model", "mlp", "--data", "x.npy", "--classes", "3", "--out", "out"],
}


def test_every_command_with_a_seed_is_listed_here() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    theory = {f"theory {name}": each for name, each in commands["theory"].commands.items()}
    seeded = [
        name
        for name, command in (commands | theory).items()
        if any("--seed" in parameter.opts for parameter in command.params)
    ]
    assert sorted(seeded) == sorted(SEEDED)


@pytest.mark.parametrize("seed", [2**200, -(2**200), 2**63, -1])
@pytest.mark.parametrize("command", SEEDED)
def test_impossible_seed_is_refused_in_one_line(
    command: str, seed: int, rote: Rote, tmp_path: Path
) -> None:
    (tmp_path / "spec.toml").write_text(SMALL)
    np.save(tmp_path / "x.npy", np.zeros((12, 1, 8, 8), np.float32))
    network = build_architecture("mlp", in_channels=1, image_size=8, num_classes=3)
    torch.save(network.state_dict(), tmp_path / "step-1.pt")
    arguments = [*command.split(), *SEEDED[command], f"--seed={seed}"]
    if command == "probe" and seed == -1:
        assert rote(*arguments).code == 0  # as torch, which has negative seeds
        return
    said = rote.refuses(*arguments)
    assert "seed" in said
    assert "integer" in said or "less than" in said or "greater than" in said
    assert not (tmp_path / "out").exists()


def test_pipes_and_devices_are_not_opened(rote: Rote, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "x_train.npy")
    for place in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        assert "is not a regular file" in rote.refuses("train", place)
        assert "not a regular file" in rote.refuses("sweep", place, "--out", "store")
    assert rote("data", "check", tmp_path / "pipe").code == 1
    assert rote("data", "check", tmp_path).code == 1


def test_full_disk_is_reported_in_one_line(
    rote: Rote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.toml").write_text(SMALL)
    usual = Path.open

    def opened(path: Path, *args: object, **kwargs: object) -> object:
        full = Path("/dev/full") if path.name == "resume.draft" else path
        return usual(full, *args, **kwargs)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        said = rote.refuses("train", "spec.toml", "--out", "run", "--quiet")
    assert "Cannot write run: No space left on device. What was saved" in said
    assert rote("train", "spec.toml", "--out", "run", "--quiet").code == 0


def test_removed_folder_is_reported_in_one_line(
    rote: Rote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from rote.workloads.workload import Workload

    (tmp_path / "spec.toml").write_text(SMALL)
    usual = Workload.train_epoch

    def gone(self: Workload, *args: object) -> dict[str, float]:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return usual(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Workload, "train_epoch", gone)
    said = rote.refuses("train", "spec.toml", "--out", "run", "--quiet")
    assert "run" in said


def test_system_error_is_reported_in_one_line(rote: Rote, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SMALL)
    said = rote.refuses("train", "spec.toml", "--out", "x" * 300)
    assert "File name too long" in said


def test_control_characters_of_names_are_written_out(rote: Rote, tmp_path: Path) -> None:
    spec = RunSpec.from_dict({"epochs": 1, "architecture": "mlp", "name": "a\x1b[2J\nError: b\x9b"})
    train(spec, tmp_path / "store" / "one")
    shown = {
        ("select", "store"): "a‹U+001B›[2J‹U+000A›Error: b‹U+009B›",
        ("sweep", "--list", "store"): "a\\x1b[2J\\nError: b\\x9b",
    }
    for arguments, name in shown.items():
        said = rote(*arguments)
        assert said.code == 0, said.err
        assert "\x1b[2J" not in said.out + said.err
        assert "\x9b" not in said.out + said.err
        assert name in said.out.replace("\n", "")


def test_foreign_json_in_a_run_is_reported_in_one_line(rote: Rote, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SMALL)
    assert rote("train", "spec.toml", "--out", "run", "--quiet").code == 0
    for text in ("[]", "3", "{}", '{"schema": 1}', "[" * 100_000, '{"schema": 1, "spec": []}'):
        (tmp_path / "run" / "workload.json").write_text(text)
        assert "workload.json" in rote.refuses("train", "spec.toml", "--out", "run", "--quiet")


@pytest.mark.parametrize(
    "variables",
    [{"LC_ALL": "C"}, pytest.param({"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.full)],
)
def test_a_terminal_may_know_ascii_only(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SMALL)
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **variables}

    printed, errors = in_one_process(
        ["train", "spec.toml", "--out", "store/one"],
        ["select", "store", "--rule", "regions"],
        ["doctor", "--model", "mlp", "--shape", "1,8,8"],
        ["data", "list"],
        folder=tmp_path,
        **plain,
    )
    _, selected, doctor, data = (text.decode("ascii") for text in printed)
    errors.decode("ascii")
    assert "zeta" in selected
    assert "can be probed" in doctor
    assert "digits" in data


def test_names_that_are_not_utf_8_are_taken(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SMALL)
    odd = os.fsencode(tmp_path / "store") + b"/r\xff"
    in_one_process(
        [b"train", b"spec.toml", b"--out", odd, b"--quiet"],
        [b"select", odd],
        [b"sweep", b"--list", os.fsencode(tmp_path / "store")],
        folder=tmp_path,
    )


def code_beside(tmp_path: Path) -> None:
    (tmp_path / "touching.py").write_text(
        "from pathlib import Path\nfrom torch import nn\n"
        "Path('touched').touch()\n"
        "def net(num_classes, image_size):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(image_size**2, num_classes))\n"
        "def nothing():\n    return 3\n"
    )


def test_a_spec_may_import_modules_in_its_folder_and_allowed_ones(
    rote: Rote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code_beside(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "touching", raising=False)
    (tmp_path / "specs").mkdir()
    spec = SMALL.replace('{ name = "mlp", options = { width = 8 } }', "'touching:net'")
    (tmp_path / "specs" / "far.toml").write_text(spec)
    (tmp_path / "near.toml").write_text(spec)
    (tmp_path / "other.toml").write_text(spec.replace("touching:net", "os:system"))
    (tmp_path / "signal.toml").write_text(SMALL + "\nsignals = ['subprocess:Popen']")
    for file in ("specs/far.toml", "other.toml", "signal.toml"):
        said = rote.refuses("train", file, "--out", "run", "--quiet")
        assert f"{file}, line" in said
        assert "is not in the spec's folder and not allowed" in said
    assert not (tmp_path / "touched").exists()
    done = rote("train", "specs/far.toml", "--out", "a", "--quiet", "--allow-import", "touching")
    assert done.code == 0, done.err
    assert rote("train", "near.toml", "--out", "b", "--quiet").code == 0
    (tmp_path / "nothing.toml").write_text(spec.replace("touching:net", "touching:nothing"))
    assert "to return a torch.nn.Module, got int" in rote.refuses("train", "nothing.toml")


def test_a_dry_run_imports_only_what_is_allowed_by_name(
    rote: Rote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code_beside(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "touching", raising=False)
    (tmp_path / "sweep.toml").write_text(
        "[base]\nepochs = 2\ndata = { name = 'digits', train_size = 60 }\n"
        "[grid]\narchitecture = ['mlp', 'touching:net']\n"
    )
    said = rote.refuses("sweep", "sweep.toml", "--out", "store", "--dry-run")
    assert "sweep.toml, line 5: `grid.architecture.name` names 'touching:net'" in said
    assert not (tmp_path / "touched").exists()
    done = rote(
        "sweep", "sweep.toml", "--out", "store", "--dry-run", "--json", "--allow-import", "touching"
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["estimate"]["measured"] == 2
    assert (tmp_path / "touched").exists()
    (tmp_path / "other.toml").write_text("[grid]\narchitecture = ['os:system']\n")
    assert "allow-import" in rote.refuses("sweep", "other.toml", "--out", "store")
