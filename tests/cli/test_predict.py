"""`rote predict`, and `rote train` and `rote suspects` on data that were edited."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Rote

ROWS = [f"{n % 7},{(n * 5) % 11},{'ab'[n % 2]}" for n in range(60)]


def write(name: str, rows: list[str]) -> None:
    Path(name).write_text("\n".join(["size,width,label", *rows]) + "\n")


def test_from_a_file_to_predictions_and_after_an_edit_to_a_new_run(
    rote: Rote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("my.csv", ROWS)
    assert rote("train", "--data", "my.csv", "--quiet").code == 0
    (run,) = Path("runs").iterdir()
    Path("new.csv").write_text("width,size\n1,2\n3,4\n")
    said = rote("predict", run, "new.csv", "--out", "out.csv")
    assert said.code == 0, said.err
    assert "2 samples predicted with" in said.out
    with Path("out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["sample"] for row in rows] == ["0", "1"]
    assert all(row["predicted"] in "ab" for row in rows)
    found = json.loads(rote("predict", run, "new.csv", "--json").out)
    assert found["predicted"] == [row["predicted"] for row in rows]
    assert "already finished" in rote("train", "--data", "my.csv", "--quiet").out

    write("my.csv", ["0,0,b", *ROWS[1:]])
    assert "my.csv has changed since" in rote.refuses("suspects", run)
    said = rote("train", "--data", "my.csv", "--quiet")
    assert "1 of 60 labels differ" in said.out
    assert "Training a new run beside it" in said.out
    assert len(list(Path("runs").iterdir())) == 2
    again = rote("train", "--data", "my.csv", "--quiet")
    assert "already finished" in again.out
    assert len(list(Path("runs").iterdir())) == 2
