import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from rote.cli import main
from rote.errors import InputError, MissingExtraError
from rote.theory import bounds_table, check
from rote.workloads import load_arrays

pytestmark = pytest.mark.slow

MNIST = Path(__file__).parents[3] / "shared" / "data" / "mnist.npz"
SMALL = ("--samples", "40", "--eta", "1e-3", "--steps", "200")
QUICK = ("--samples", "8", "--draws", "2", "--steps", "20", "--k-tilde", "20")


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No set but those that a test makes: neither from this machine nor from the network."""

    def no_download(named: object) -> Path:
        raise MissingExtraError("no package `datasets`")

    monkeypatch.delenv("ROTE_DATA", raising=False)
    monkeypatch.setenv("ROTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("rote.workloads.data.lookup.fetch", no_download)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main.app, ["theory", *map(str, arguments)])


def run_json(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    values: dict[str, Any] = json.loads(result.stdout)
    return values


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(path, x_train=rng.random((60, 2, 3)), y_train=np.arange(60) % 3)
    return path


def test_bounds_work_out_of_the_box(tmp_path: Path) -> None:
    result = run("bounds", *SMALL, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"digits-bounds.{kind}" for kind in ("svg", "png", "csv")}
    assert "40 samples of digits: even classes are 1, odd classes are −1." in result.stdout
    assert "η = 0.001, k = 200, δ = 0.05." in result.stdout
    assert "lower bound" in result.stdout
    assert f"Wrote {tmp_path / 'out' / 'digits-bounds.svg'}" in result.stdout


def test_bounds_are_those_of_the_library(tmp_path: Path, own_data: Path) -> None:
    options = ("--data", own_data, "--samples", 30, "--eta", 0.01, "--steps", 100)
    found = run_json(
        *("bounds", *options, "--noise", "0,0.5,1", "--k-tilde-max", 10, "--pair", "2,0"),
        *("--delta", 0.1, "--seed", 3, "--out", tmp_path),
    )
    with np.load(own_data) as arrays:
        expected = bounds_table(
            arrays["x_train"],
            arrays["y_train"],
            samples=30,
            eta=0.01,
            k=100,
            k_tilde=np.arange(11),
            rng=np.random.default_rng(3),
            noise=[0, 0.5, 1],
            delta=0.1,
            pair=(2, 0),
        )
    assert found["labels"] == expected.labels == "class 2 is 1, class 0 is -1"
    assert found["reversed_from"] == expected.reversed_from
    assert (found["data"], found["k"], found["delta"]) == ("own", 100, 0.1)
    assert [row["lower"] for row in found["rows"]] == [row.lower for row in expected.rows]
    with Path(found["files"]["csv"]).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["upper"]) for row in rows] == [row.upper for row in expected.rows]
    assert [int(row["k_tilde"]) for row in rows[:11]] == list(range(11))


def test_bounds_have_201_steps_up_to_k_by_default(tmp_path: Path) -> None:
    found = run_json("bounds", *SMALL, "--noise", "0.5", "--out", tmp_path)
    assert [row["k_tilde"] for row in found["rows"]] == list(range(201))
    assert {row["noise"] for row in found["rows"]} == {0.5}


def test_a_reversal_is_printed(tmp_path: Path) -> None:
    result = run(
        *("bounds", "--samples", 60, "--pair", "0,1", "--eta", 0.01, "--steps", 2000),
        *("--out", tmp_path),
    )
    assert result.exit_code == 0
    assert re.search(r"At step [\d,]+ \(dotted line\) more label noise stops", result.stdout)


def test_landmarks_show_their_error(tmp_path: Path) -> None:
    found = run_json("bounds", *SMALL, "--landmarks", 10, "--out", tmp_path)
    assert 0 < found["trace_error"] < 1
    assert "Low-rank spectrum" in found["notes"][-1]


@pytest.mark.parametrize("by", ["option", "environment", "name of a file"])
def test_named_sets_come_from_the_data_folder(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(1, 256, (30, 28, 28), dtype=np.uint8)
    labels = np.arange(30) % 10
    path = tmp_path / "mnist.npz"
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)
    if by == "environment":
        monkeypatch.setenv("ROTE_DATA", str(tmp_path))
    folder = tmp_path if by != "environment" else None
    name, x, y = load_arrays("mnist.npz" if by == "name of a file" else "mnist", folder)
    assert name == "mnist"
    assert np.array_equal(x.reshape(30, -1), images.reshape(30, -1))
    assert np.array_equal(y, labels)


def test_sets_with_known_truth_use_it(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((20, 28, 28, 1))
    noisy, clean = np.arange(20) % 10, np.arange(20)[::-1] % 10
    arrays = {"x_train": x, "y_train": noisy, "y_train_clean": clean}
    np.savez(tmp_path / "mnist.npz", **arrays, x_test=x, y_test=clean)
    assert np.array_equal(load_arrays("mnist", tmp_path)[2], clean)


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "no set": (
        ("--data", "mnist"),
        r"`--data` .* Put mnist.npz into the folder named by ROTE_DATA",
    ),
    "no folder": (("--data", "svhn", "--data-dir", "/no"), r"Put svhn.npz into /no\."),
    "typing error": (("--data", "mnst"), "`--data` to be one of digits, .* mean 'mnist'"),
    "no file": (("--data", "no.npz"), "`--data` .*not found at no.npz"),
    "noise": (("--noise", "0;1"), "Expected `--noise` to be numbers .*commas, got '0;1'"),
    "much noise": (("--noise", "0,2"), r"`noise` to be .* in \[0, 1\], got 2"),
    "one class": (("--pair", "3"), "`--pair` to be two classes, as 3,8, got '3'"),
    "the same class": (("--pair", "3,3"), "`--pair` to be two classes, as 3,8, got '3,3'"),
    "half a class": (("--pair", "3,8.5"), "`--pair` to be whole numbers, got '3,8.5'"),
    "strange class": (("--pair", "3,12"), "samples on both sides"),
    "many samples": (("--samples", "99999"), "`samples` to be between 1 and 1442"),
    "eta": (("--eta", "0"), "`eta` to be a number that is positive and finite, got 0"),
    "large eta": (("--eta", "9"), "`eta` to be below 2 / λ_max"),
    "delta": (("--delta", "0"), "`delta` to be a number that is above 0 and at most 1, got 0"),
    "landmarks": (("--landmarks", "5000"), "`landmarks` to be between 1 and"),
    "k_tilde": (("--k-tilde-max", "-3"), "`k_tilde` .* got -3"),
    "out": (("--out", "/dev/null/x"), "Cannot write to /dev/null/x"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_usage_is_one_line_and_exit_2(
    case: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    options, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    arguments = ["rote", "theory", "bounds", *([] if case == "many samples" else SMALL), *options]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match="2"):
        main.main()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert re.search(message, captured.err)
    assert "Traceback" not in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": np.ones((3, 2))}, "no array `y_train`.* x_train"),
        ({"x_train": np.ones((3, 2)), "y_train": np.arange(2)}, r"got \(3, 2\) and \(2,\)"),
        ({"x_train": np.ones(3), "y_train": np.arange(3)}, r"got \(3,\) and \(3,\)"),
    ],
)
def test_files_without_samples_and_classes_are_refused(
    arrays: dict[str, Any], message: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "odd.npz", **arrays)
    for command in ("bounds", "check"):
        result = run(command, "--data", tmp_path / "odd.npz")
        assert isinstance(result.exception, InputError)
        assert re.search(message, str(result.exception))


def test_a_damaged_file_is_refused(tmp_path: Path, own_data: Path) -> None:
    whole = own_data.read_bytes()
    middle = len(whole) // 3
    damaged = whole[:middle] + bytes(64) + whole[middle + 64 :]
    (tmp_path / "damaged.npz").write_bytes(damaged)
    (tmp_path / "text.npz").write_bytes(b"not an archive")
    with pytest.raises(InputError, match=r"`x_train` of .*damaged.npz is damaged"):
        load_arrays(str(tmp_path / "damaged.npz"), None)
    with pytest.raises(InputError, match=r"text.npz is not an .npz file"):
        load_arrays(str(tmp_path / "text.npz"), None)


def test_check_shows_the_gap_shrinking_with_the_width() -> None:
    result = run("check", *QUICK, "--widths", "2048,16", "--quiet")
    assert result.exit_code == 0, result.output
    assert "8 samples of digits: even classes are 1, odd classes are -1" in result.stdout
    assert "labels drawn 2 times" in result.stdout
    power = re.search(r"From 16 to 2048 units the gap shrinks like m\^(-[\d.]+)", result.stdout)
    assert power is not None
    assert -1 < float(power[1]) < 0


def test_check_is_that_of_the_library(own_data: Path) -> None:
    found = run_json("check", "--data", own_data, *QUICK, "--widths", "8,64", "--pair", "0,1")
    assert found["labels"] == "class 0 is 1, class 1 is -1"
    records = found["records"]
    assert [(record["draw"], record["width"]) for record in records] == [
        (0, 8),
        (0, 64),
        (1, 8),
        (1, 64),
    ]
    with np.load(own_data) as arrays:
        kept = np.flatnonzero(arrays["y_train"] < 2)
        chosen = kept[np.random.default_rng(0).choice(len(kept), size=8, replace=False)]
        x, y = arrays["x_train"][chosen], np.where(arrays["y_train"][chosen] == 0, 1.0, -1.0)
    settings: Any = {"eta": 0.1, "k": 20, "k_tilde": 20, "widths": [8, 64], "draws": 1}
    expected = [
        record
        for draw in range(2)
        for record in check(x, y, rng=np.random.default_rng([0, draw]), **settings)
    ]
    assert [record["simulated"] for record in records] == [r.simulated for r in expected]
    gaps = [np.sqrt((expected[i].gap ** 2 + expected[i + 2].gap ** 2) / 2) for i in (0, 1)]
    assert [row["gap"] for row in found["widths"]] == pytest.approx(gaps)
    assert found["gap_shrinks"] == (gaps[1] < gaps[0])


def test_check_fails_when_the_gap_does_not_shrink() -> None:
    # Without a step, the gap is what the initial weights put out, of size κ at every width.
    still = ("--steps", 0, "--k-tilde", 0, "--draws", 1, "--kappa", 1, "--samples", 8)
    codes = set()
    for seed in range(8):
        result = run("check", *still, "--widths", "512,513", "--seed", seed)
        codes.add(result.exit_code)
        assert ("does not shrink" in result.stdout) == (result.exit_code == 1)
    assert codes == {0, 1}


def test_one_width_shows_no_trend() -> None:
    result = run("check", *QUICK, "--widths", "16")
    assert result.exit_code == 0
    assert "One width alone does not show" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--widths", "8,x"), "`--widths` to be numbers .*commas, got '8,x'"),
        (("--widths", "8.5"), "`--widths` to be whole numbers, got '8.5'"),
        (("--widths", "0"), "`width` to be an integer of at least 1, got 0"),
        (("--samples", "5000"), "`--samples` to be between 1 and 1442"),
        (("--noise", "2"), r"in \[0, 1\], got 2"),
        (("--kappa", "-1"), "`kappa` to be a number that is positive and finite, got -1"),
    ],
)
def test_bad_checks_are_refused(options: tuple[str, ...], message: str) -> None:
    result = run("check", *QUICK, *options)
    assert isinstance(result.exception, InputError)
    assert re.search(message, str(result.exception))


def test_no_draws_are_bad_usage() -> None:
    result = run("check", "--draws", 0)
    assert result.exit_code == 2


def test_help_imports_neither_torch_nor_altair() -> None:
    script = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from rote.cli.main import app\n"
        "for command in ([], ['bounds'], ['check']):\n"
        "    assert CliRunner().invoke(app, ['theory', *command, '--help']).exit_code == 0\n"
        "print({'torch', 'altair', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_bounds_command_prints_the_expected_table(tmp_path: Path) -> None:
    if not MNIST.exists():
        pytest.skip(f"MNIST is not at {MNIST}")
    command = (
        "theory bounds --data mnist --samples 1000 --eta 1e-6 --steps 10000 "
        "--noise 0,0.25,0.5,0.75,1 --json"
    )
    done = subprocess.run(
        [sys.executable, "-m", "rote", *command.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "ROTE_DATA": str(MNIST.parent), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "Created folder theory\n"
    found = json.loads(done.stdout)
    assert len(found["rows"]) == 5 * 201
    assert (found["labels"], found["reversed_from"]) == (
        "even classes are 1, odd classes are -1",
        None,
    )
    # Seen in the figure: the mean falls with noise and with k̃.
    means = np.array([row["mu"] for row in found["rows"]]).reshape(5, 201)
    assert (np.diff(means, axis=0) < 0).all()
    assert (np.diff(means, axis=1) < 0).all()
    assert found["files"]["png"] == "theory/mnist-bounds.png"
    assert (tmp_path / found["files"]["png"]).stat().st_size > 10_000
