"""`rote clean` and `rote train --compare-with`: from runs with folds to a better model."""

from pathlib import Path

import numpy as np
import pytest

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
