"""`rote data` and `rote train --data`: from somebody's file to a verdict without a line of code."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from rote.store import read_run
from tests.workloads.small_runs import write_npz

pytestmark = pytest.mark.slow

ROWS = "\n".join(f"{n % 7},{(n * 5) % 11},{'ab'[n % 2]}" for n in range(60))


def invoke(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("my table.csv").write_text(f"size,width,kind\n{ROWS}\n")
    return "my table.csv"


def test_a_check_ends_with_the_command_that_trains(table: str) -> None:
    lines = invoke("data", "check", table, "--label", "kind").splitlines()
    at = lines.index("can be used: yes")
    assert [line.split() for line in lines[:at]] == [
        ["size", "numbers"],
        ["width", "numbers"],
        ["kind", "the", "label:", "2", "classes"],
    ]
    told = dict(re.split(r"  +", line, maxsplit=1) for line in lines[at + 1 : -1])
    assert told["train"] == "60"
    assert told["labels"] == "column kind"
    assert told["class names"] == "a, b"
    assert lines[-1] == "next: rote train --data 'my table.csv' --label kind"
    output = invoke("train", "--data", table, "--label", "kind", "--out", "run", "--quiet")
    assert "Saved in run. Edit run/spec.toml to change it." in output
    assert "rote select run" in output
    assert json.loads(Path("run/workload.json").read_text())["data"]["name"] == table


def test_many_columns_that_are_alike_are_one_line_of_a_check(tmp_path: Path) -> None:
    names = [f"p{n}" for n in range(1200)]
    numbers = [[str(n * (m + 3) % 19) for m in range(1200)] for n in range(40)]
    rows = [",".join([*row, "xy"[n % 2], "ab"[n // 3 % 2]]) for n, row in enumerate(numbers)]
    file = tmp_path / "wide.csv"
    file.write_text("\n".join([",".join([*names, "kind", "label"]), *rows, ""]))
    lines = invoke("data", "check", str(file)).splitlines()
    assert lines[0] == "p0 to p1199 (1,200 columns)  numbers"
    assert lines[1].split() == ["kind", "2", "categories:", "x,", "y"]
    assert lines[3] == "can be used: yes"
    assert len(json.loads(invoke("data", "check", str(file), "--json"))["contents"]) == 1202


def test_a_table_that_cannot_be_used_is_explained_in_the_last_line(table: str) -> None:
    last = invoke("data", "check", table, code=1).splitlines()[-1]
    assert last.startswith("can be used: no. my table.csv has no column 'label'.")
    found = json.loads(invoke("data", "check", table, "--json", code=1))
    assert found["command"] is None
    assert len(found["problems"]) == 1


def test_suspects_of_a_table_are_its_rows_and_its_words(tmp_path: Path) -> None:
    sizes = [n % 40 for n in range(400)]
    kinds = ["" if n % 9 == 0 else "ab"[size >= 20] for n, size in enumerate(sizes)]
    wrong = [n for n in range(10, 400, 41) if kinds[n]]
    for n in wrong:
        kinds[n] = "ba"["ba".index(kinds[n]) - 1]
    table, run = tmp_path / "a.csv", tmp_path / "run"
    rows = "".join(f"{size},{kind}\n" for size, kind in zip(sizes, kinds, strict=True))
    table.write_text(f"size,label\n{rows}")
    said = invoke("train", "--data", str(table), "--out", str(run), "--quiet")
    assert f"rote suspects {run}" in said.splitlines()[-1]
    invoke("suspects", str(run), "--csv", str(tmp_path / "s.csv"))
    found = pl.read_csv(tmp_path / "s.csv")
    assert [kinds[n] for n in found["sample"]] == found["given_name"].to_list()
    assert len(found) == sum(kind != "" for kind in kinds)  # training and holdout samples
    held_out = found.filter(pl.col("split") == "holdout")
    errors = [n for n in wrong if n in held_out["sample"]]
    assert set(errors) <= set(held_out.filter(pl.col("flagged"))["sample"])
    assert errors
    trained = found.filter(pl.col("split") == "train")["sample"].to_list()
    places = [trained.index(n) for n in wrong if n in trained]
    assert max(places) < len(trained) / 4
    invoke("suspects", str(run), "--by", "aum", "--csv", str(tmp_path / "aum.csv"))
    by_margin = set(pl.read_csv(tmp_path / "aum.csv")["sample"])
    assert {n for n in wrong if n in trained} <= by_margin
    assert len(by_margin) < len(trained) / 2


def test_suspects_of_a_folder_are_its_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="reads images")
    for n in range(48):
        is_bright = (n % 2 == 1) ^ (n in (7, 20))  # these two are in the wrong folder
        place = tmp_path / "photos" / ("dark", "light")[n % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(n).integers(0, 60, (9, 12, 3)) + 180 * is_bright
        image.fromarray(pixels.astype(np.uint8)).save(place / f"{n}.png")
    run = tmp_path / "run"
    invoke("train", "--data", str(tmp_path / "photos"), "--out", str(run), "--quiet")
    spec = json.loads((run / "workload.json").read_text())["spec"]
    assert (spec["data"]["image_size"], spec["architecture"]["options"]) == (32, {"width": 16})
    said = invoke("suspects", str(run), "--csv", str(tmp_path / "s.csv"))
    assert "numbered from 0" not in said
    found = pl.read_csv(tmp_path / "s.csv").filter(pl.col("split") == "train")
    assert found["file"].to_list()
    assert found["file"][0] in ("light/7.png", "dark/20.png")
    assert "light/7.png" in said or "dark/20.png" in said


def test_suspects_of_one_group_follow_the_advice_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, least in (("a.csv", 20), ("b.csv", 30)):
        rows = [f"{n % 40},{'ab'[(n % 40 >= least) ^ (n % 41 == 10)]}" for n in range(400)]
        Path(name).write_text("\n".join(["size,label", *rows, ""]))
        invoke("train", "--data", name, "--quiet")
    with pytest.raises(InputError, match=r"Choose one group with .*--where 'data\.path=a\.csv'"):
        invoke("suspects", "runs")
    said = invoke("suspects", "runs", "--where", "data.path=a.csv")
    assert "by a." in said
    assert "by b." not in said
    assert "numbered from 0" in said


def test_another_seed_is_a_second_opinion_on_the_same_holdout(table: str) -> None:
    Path("spec.toml").write_text("epochs = 2\narchitecture = 'mlp'\n")
    for seed in ("0", "1"):
        options = ("--data", table, "--label", "kind", "--seed", seed, "--quiet")
        invoke("train", "spec.toml", *options)
    first, second = (read_run(path) for path in sorted(Path("runs").iterdir()))
    assert first.readings != second.readings
    assert first.description["holdout"] == second.description["holdout"]
    assert "Keep step" in invoke("select", "runs")


def test_few_samples_of_a_class_are_warned_of(tmp_path: Path) -> None:
    rows = "\n".join(f"{n},{'a' if n < 3 else 'bc'[n % 2]}" for n in range(0, 1200, 2))
    (tmp_path / "a.csv").write_text(f"size,label\n{rows}\n")
    told = dict(
        re.split(r"  +", line)
        for line in invoke("data", "check", str(tmp_path / "a.csv")).splitlines()
        if "  " in line
    )
    assert told["samples of a class"] == "2 to 598"
    assert told["caution"] == "1 class with fewer than 5 samples, too few to learn"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.5,1.5,a\n0.25,2.5,b\n", "The first line must name the columns; this one looks like"),
        ("label\na\nb\n", "no column of numbers or texts beside the labels"),
        ("who,label\nAnn,a\nBob,b\nCy,a\n", "who: left out: 3 different names or codes,"),
    ],
)
def test_a_table_that_cannot_be_used_raises_an_error_with_the_remedy(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert said in invoke("data", "check", str(tmp_path / "a.csv"), code=1)


def test_typo_in_the_name_of_a_set_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Check the path, or .* Did you mean 'mnist'\?"):
        invoke("train", "--data", str(Path("mnistt")), "--out", str(tmp_path / "a"))


def test_a_spec_may_be_given_other_data(table: str) -> None:
    Path("spec.toml").write_text("epochs = 2\narchitecture = 'mlp'\n")
    invoke("train", "spec.toml", "--data", table, "--label", "kind", "--out", "run", "--quiet")
    spec = json.loads(Path("run/workload.json").read_text())["spec"]
    assert (spec["epochs"], spec["data"]["path"]) == (2, table)
    with pytest.raises(InputError, match=r"Name a spec .* or data"):
        invoke("train")
    with pytest.raises(InputError, match=r"--label and --truth need --data"):
        invoke("train", "spec.toml", "--label", "kind")


def test_the_list_fits_a_terminal_and_cuts_no_address(tmp_path: Path) -> None:
    images = np.zeros((3, 32, 32, 3), np.uint8)
    arrays = {"x_train": images, "y_train": np.arange(3), "x_test": images, "y_test": np.arange(3)}
    write_npz(tmp_path / "cifar10_20k_5k.npz", **arrays)
    full = {
        f"{kind}_{part}": np.zeros((count, 1), np.uint8).squeeze(1 if kind == "y" else ())
        for part, count in (("train", 60000), ("test", 10000))
        for kind in "xy"
    }
    write_npz(tmp_path / "mnist.npz", **full)
    output = invoke("data", "list", "--data-dir", str(tmp_path))
    lines = [line for line in output.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80
    for entry in json.loads(invoke("data", "list", "--json", "--data-dir", str(tmp_path))):
        address = re.search(r"https?://[^\s,]+", entry["obtain"])
        assert entry["found"] or address is None or address.group() in output
        if entry["name"] == "mnist":
            assert entry["subset"] is None
    assert output.count("a subset: 3 of 50,000 train and 3 of 10,000 test images") == 2
