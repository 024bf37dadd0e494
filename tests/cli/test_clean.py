"""`rote clean` and `rote train --compare-with`: from runs with folds to a better model."""

from pathlib import Path

import numpy as np
import pytest

from rote.cli import clean
from rote.workloads import Cleaning, LabelChange, RunSpec
from tests.cli.conftest import Rote


def test_a_file_is_cleaned_and_the_new_run_is_compared(
    rote: Rote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    truth = generator.integers(2, size=120)
    features = 4 * truth + generator.normal(size=120)
    given = np.where(generator.random(120) < 0.15, 1 - truth, truth)
    rows = [f"{x:.4f},{'ab'[y]}" for x, y in zip(features, given, strict=True)]
    Path("my.csv").write_text("\n".join(["size,label", *rows]) + "\n")
    assert rote("train", "--data", "my.csv", "--quiet").code == 0
    assert rote("train", "--data", "my.csv", "--folds", "2", "--quiet").code == 0
    (run,) = [path for path in Path("runs").iterdir() if "folds" not in path.name]
    folds = f"{run}-folds2"
    monkeypatch.setenv("COLUMNS", "120")
    assert "size=" in rote("suspects", folds).out
    monkeypatch.setenv("COLUMNS", "60")
    assert "size=" not in rote("suspects", folds).out  # no room
    shown = rote("clean", folds)
    assert shown.code == 0, shown.err
    assert "drop from 50% on, relabel from 90% on" in shown.out
    assert "Nothing was written" in shown.out
    first = rote("clean", folds, "--review", "review.csv", "--out", "cleaned.csv")
    assert "Edit the column action" in first.out
    assert not Path("cleaned.csv").exists()
    done = rote("clean", folds, "--review", "review.csv", "--out", "cleaned.csv")
    assert "by your review" in done.out
    assert f"Next: rote train --data cleaned.csv --compare-with {run}\n" in done.out
    chosen = rote("clean", "runs", "--where", "data.path=my.csv", "--relabel", "2")
    assert "never relabel" in chosen.out
    assert Path("cleaned.csv.changes.csv").read_text().startswith("sample,file,given,proposed")
    said = rote("train", "--data", "cleaned.csv", "--compare-with", run, "--quiet")
    assert said.code == 0, said.err
    assert "12 holdout samples with their original labels" in said.out
    assert "rote clean" in rote.refuses("train", "--data", "my.csv", "--compare-with", run)
    both = ("--data", "cleaned.csv", "--compare-with", run, "--label", "label")
    assert "leave out SPEC, --label and --truth" in rote.refuses("train", *both)


def test_changes_of_files_with_long_names_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    files = ("cat/1.png", "cat/a picture with a long name.png")
    changes = [LabelChange(at, file, "cat", "dog", 0.9, "drop") for at, file in enumerate(files)]
    rows = np.arange(2)
    plan = Cleaning(Path("photos"), RunSpec(), tuple(changes), 0.5, 2.0, 0.2, rows, rows[:0], files)
    clean._show(plan, is_reviewed=False)
    listed = [line for line in capsys.readouterr().out.splitlines() if "→" in line]
    assert len({line.index("→") for line in listed}) == 1
