"""Suspect labels: against counting by hand, from rows that were written, and from real runs."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import CorruptRunError, DamagedRowsWarning, InputError
from rote.records import Reading
from rote.selection import as_csv, find_suspects, rank_suspects, select
from rote.selection.suspects import RankedLabel, SuspectLabel, SuspectRanking, Suspicion
from rote.store import RunDirectory, read_table, unescape_cell
from rote.workloads import train
from tests.selection.test_posterior import SAMPLES, holdout, write_holdout
from tests.workloads.small_runs import small_spec

pytestmark = pytest.mark.slow

# Samples 5, 6, 7 and 9 of the data; 5, 7 and 9 are trained on, 6 is the holdout.
DATA = {
    "rows": np.array([5, 6, 7, 9]),
    "labels": np.array([0, 1, 2, 3]),
    "train": np.array([0, 2, 3]),
    "holdout": np.array([1]),
    "wrong": np.array([False, True, True, True]),
}


def write(path: Path, *areas: list[float], accuracy: list[float], known: bool = True) -> Path:
    """A run with rows of ``aum``."""
    rows = {"aum": {"dtype": "float32", "shape": [len(areas[0])]}}
    run = RunDirectory.create(path, {"rows": rows})
    for step, (row, share) in enumerate(zip(areas, accuracy, strict=True)):
        reading = Reading(
            step + 1,
            1.0,
            0.9,
            0.1,
            0.1,
            0.1,
            validation_accuracy=share,
            sample_rows={"aum": np.array(row, np.float32)},
        )
        run.append(reading, step)
    run.close()
    if known:
        np.savez(path / "labels.npz", **DATA)
    return path


def test_training_labels_rejected_at_the_best_validation_are_suspects(tmp_path: Path) -> None:
    rows = ([1.0, -2.0, -1.0], [1.0, 2.0, 3.0])
    (found,) = find_suspects(write(tmp_path / "run", *rows, accuracy=[0.9, 0.4]))
    assert (found.method, found.runs, found.samples) == ("aum", ("run",), 3)
    listed = [(s.sample, s.given, s.score, s.is_wrong) for s in found.suspects]
    assert listed == [(7, 2, 1.0, True), (9, 3, 0.5, True)]
    assert (found.precision, found.recall, found.wrong) == (1.0, 1.0, 2 / 3)


def test_most_runs_that_share_their_data_must_agree(tmp_path: Path) -> None:
    for number, row in enumerate(([-1.0, -2.0, 1.0], [5.0, -1.0, float("nan")], [-3.0, 2.0, 4.0])):
        write(tmp_path / f"run{number}", row, accuracy=[0.5])
    (found,) = find_suspects(tmp_path)
    assert found.runs == ("run0", "run1", "run2")
    # 5 and 7 lose twice, 9 never. Ranks of 5: ½, ½, 1; of 7: 1, 1, ½.
    assert [s.sample for s in found.suspects] == [7, 5]
    assert [s.score for s in found.suspects] == pytest.approx([5 / 6, 2 / 3])
    assert (found.precision, found.recall) == (0.5, 0.5)


def test_a_run_without_a_data_source_names_positions(tmp_path: Path) -> None:
    write(tmp_path / "run", [1.0, -1.0], accuracy=[0.5], known=False)
    (found,) = find_suspects(tmp_path)
    (suspect,) = found.suspects
    assert (suspect.sample, suspect.given, suspect.is_wrong) == (1, None, None)
    assert found.precision is found.recall is None


def test_real_runs_find_wrong_labels_better_than_chance(tmp_path: Path) -> None:
    spec = {
        "data": {"name": "digits", "train_size": 400, "test_size": 50},
        "noise": {"model": "symmetric-inclusive", "rate": 0.3},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "architecture": {"name": "mlp", "options": {"width": 32, "depth": 1}},
        "probe": {"holdout_size": 60, "batch": 16},
        "signals": ["aum", "confident_learning"],
        "epochs": 8,
    }
    for seed in range(2):
        train(small_spec(**spec, seed=seed), tmp_path / f"run{seed}")
    found = {suspicion.method: suspicion for suspicion in find_suspects(tmp_path)}
    for method in ("aum", "confident_learning"):
        suspicion = found[method]
        assert suspicion.precision is not None
        assert suspicion.wrong is not None
        assert suspicion.precision > 2 * suspicion.wrong
        truth = np.load(tmp_path / "run0" / "labels.npz")
        wrong = dict(zip(truth["rows"].tolist(), truth["wrong"].tolist(), strict=True))
        assert all(s.is_wrong == wrong[s.sample] for s in suspicion.suspects)
        trained_on = set(truth["rows"][truth["train"]].tolist())
        assert {s.sample for s in suspicion.suspects} <= trained_on


def write_pools(root: Path, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Write six runs on a holdout with label errors; return the data and the truth."""
    truth, given, predicted = holdout("symmetric", seed)
    write_holdout(root, predicted, given)
    rng = np.random.default_rng(seed)
    data = {
        "rows": np.sort(rng.choice(5000, SAMPLES + 50, replace=False)),
        "train": np.arange(50),
        "holdout": 50 + rng.permutation(SAMPLES),
        "labels": np.zeros(SAMPLES + 50, np.int64),
        "wrong": np.zeros(SAMPLES + 50, bool),
    }
    data["labels"][data["holdout"]] = given
    data["wrong"][data["holdout"]] = given != truth
    for path in root.iterdir():
        np.savez(path / "labels.npz", **data)
    return data, truth


@pytest.mark.parametrize("seed", [0, 1])
def test_posterior_suspects_labels_of_the_holdout(tmp_path: Path, seed: int) -> None:
    data, truth = write_pools(tmp_path, seed)
    (found,) = find_suspects(tmp_path)
    assert (found.method, found.samples, len(found.runs)) == ("posterior", SAMPLES, 6)
    said = select(tmp_path, rule="posterior").suspects
    assert len(said) > 50
    hits, right_class, listed = 0, 0, []
    for suspect in said:  # counted one by one, from the holdout's own numbering
        place = int(data["holdout"][suspect.sample])
        given = int(data["labels"][place])
        hits += given != int(truth[suspect.sample])
        right_class += suspect.believed == int(truth[suspect.sample])
        listed.append((int(data["rows"][place]), given, suspect.believed, suspect.probability))
    wrong = sum(int(data["labels"][data["holdout"][i]]) != int(truth[i]) for i in range(SAMPLES))
    found_now = [(s.sample, s.given, s.believed, s.score) for s in found.suspects]
    assert found_now == listed
    assert all(s.split == "holdout" for s in found.suspects)
    assert found.precision == hits / len(said)
    assert found.recall == hits / wrong
    assert found.wrong == wrong / SAMPLES
    # A guess would be right two times in five.
    assert hits / len(said) > 0.9
    assert hits / wrong > 0.8
    assert right_class / len(said) > 0.8


def test_posterior_results_are_cached(tmp_path: Path) -> None:
    write_pools(tmp_path, 0)
    judged = select(tmp_path, rule="posterior", noise_rate=0.1)
    (found,) = find_suspects(read_table(tmp_path), judged)
    assert [s.score for s in found.suspects] == [s.probability for s in judged.suspects]
    assert found != find_suspects(tmp_path)[0]  # another rate, other probabilities


def test_command_lists_them_and_writes_a_table(tmp_path: Path) -> None:
    write(tmp_path / "run", [1.0, -2.0, -1.0], accuracy=[0.9])
    out = tmp_path / "suspects.csv"
    shown = invoke(str(tmp_path / "run"), "--csv", str(out), "--by", "aum")
    assert "aum, by run: 2 of 3 labels are suspect." in shown
    assert "100.0 % are wrong" in shown.replace("%", " %").replace("  %", " %")
    lines = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [line["sample"] for line in lines] == ["7", "9"]
    assert out.read_text() == as_csv(find_suspects(tmp_path / "run"))
    found = json.loads(invoke(str(tmp_path / "run"), "--by", "aum", "--json"))["suspicions"]
    assert [(s["sample"], s["is_wrong"]) for s in found[0]["suspects"]] == [(7, True), (9, True)]


def test_one_list_ranks_holdout_and_training_samples(tmp_path: Path) -> None:
    write_pools(tmp_path, 0)
    (found,) = rank_suspects(tmp_path)
    posterior = select(tmp_path, rule="posterior")
    assert found.noise_rate == pytest.approx(posterior.noise_rate)
    held_out = [entry for entry in found.samples if entry.split == "holdout"]
    assert len(held_out) == SAMPLES
    doubts = [entry.probability for entry in found.samples]
    assert doubts == sorted(doubts, reverse=True)
    assert found.flagged == sum(doubt > 0.5 for doubt in doubts)
    listed = [(e.given, e.proposed, e.probability) for e in held_out if e.probability > 0.5]
    assert listed == [(s.given, s.believed, s.probability) for s in posterior.suspects]
    assert found.precision is not None
    assert found.recall is not None
    assert min(found.precision, found.recall) > 0.8


def test_training_samples_are_ranked_by_signals(tmp_path: Path) -> None:
    write(tmp_path / "run", [1.0, -2.0, -1.0], accuracy=[0.9])
    (found,) = rank_suspects(tmp_path / "run")
    assert [entry.sample for entry in found.samples] == [7, 9, 5]
    assert found.samples[0].signals == ("aum",)
    assert found.samples[0].is_wrong
    out = tmp_path / "all.csv"
    shown = invoke(str(tmp_path / "run"), "--csv", str(out))
    assert "3 labels are suspect, by run" in shown
    lines = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [line["sample"] for line in lines] == ["7", "9", "5"]
    said = json.loads(invoke(str(tmp_path / "run"), "--json"))["rankings"]
    assert (said[0]["num_samples"], said[0]["flagged"]) == (3, found.flagged)
    with pytest.raises(InputError, match="--by csl"):
        invoke(str(tmp_path / "run"), "--by", "csl")


def test_folds_rank_by_networks_that_have_not_seen_the_sample(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, truth = np.arange(100, 300), rng.integers(3, size=200)
    labels = np.where(rng.random(200) < 0.25, (truth + 1) % 3, truth)
    for fold in (0, 1):
        run = RunDirectory.create(tmp_path / f"fold-{fold}", {"num_classes": 3, "holdout": None})
        run.append(Reading(1, 1.0, 0.9, 0.1, 0.1, 0.1), 0)
        run.close()
        part = np.arange(200) % 2 == fold
        clear = np.eye(3)[truth[part]] * 0.8 + rng.dirichlet(np.ones(3), part.sum()) * 0.2
        np.savez(
            tmp_path / f"fold-{fold}" / "out_of_sample.npz",
            samples=rows[part], labels=labels[part], classes=clear.argmax(1),
            probabilities=clear, best_probabilities=clear, votes=np.eye(3)[clear.argmax(1)],
        )  # fmt: skip
        data = {"rows": rows, "labels": labels, "wrong": labels != truth}
        places = {"train": np.flatnonzero(~part), "holdout": np.flatnonzero(part)}
        np.savez(tmp_path / f"fold-{fold}" / "labels.npz", **data, **places)
    (found,) = rank_suspects(tmp_path)
    assert len(found.samples) == 200
    assert found.noise_rate == pytest.approx(0.25, abs=0.06)
    assert found.precision == found.recall == 1.0
    assert all(entry.proposed == truth[entry.sample - 100] for entry in found.suspects)
    assert {entry.signals for entry in found.suspects} == {("out-of-sample",)}


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["suspects", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_says_what_is_missing_or_damaged(tmp_path: Path) -> None:
    bare = RunDirectory.create(tmp_path / "bare", {})
    bare.append(Reading(1, 1.0, 0.9, 0.1, 0.1, 0.1), 0)
    bare.close()
    with pytest.raises(InputError, match="Record aum or confident_learning"):
        find_suspects(tmp_path / "bare")
    path = write(tmp_path / "run", [1.0, -1.0], accuracy=[0.5])
    (path / "aum.bin").write_bytes(b"")  # rows that are gone
    with (
        pytest.warns(DamagedRowsWarning, match="Left out `aum` of 'run'"),
        pytest.raises(InputError, match="nothing to rank labels by"),
    ):
        find_suspects(path)
    (path / "aum.bin").write_bytes(np.array([1.0, -1.0], np.float32).tobytes())
    with pytest.raises(CorruptRunError, match="rows of `aum` in 'run' have 2 numbers"):
        find_suspects(path)
    np.savez(path / "labels.npz", **{**DATA, "train": np.array([99])})
    with pytest.raises(CorruptRunError, match=r"Cannot read the labels .*labels.npz"):
        find_suspects(path)
    (path / "labels.npz").write_bytes(b"no archive")
    with pytest.raises(CorruptRunError, match=r"Cannot read the labels .*labels.npz"):
        find_suspects(path)


def test_a_reading_without_a_row_is_passed_over(tmp_path: Path) -> None:
    """One that was filled in from a state, after a power cut, has none."""
    path = tmp_path / "run"
    rows = {"rows": {"aum": {"dtype": "float32", "shape": [3]}}}
    run = RunDirectory.create(path, {"name": "run", **rows})
    for row, margins in enumerate(([1.0, 1.0, -1.0], None, [-1.0, 1.0, 1.0])):
        values = {} if margins is None else {"aum": np.array(margins)}
        losses, accuracy = (1.0, 0.9, 0.1, 0.1, 0.1), (0.7, 0.9, 0.5)[row]
        entry = Reading(row + 1, *losses, validation_accuracy=accuracy, sample_rows=values)
        run.append(entry, row)
    run.close()
    (found,) = find_suspects(path)
    assert [suspect.sample for suspect in found.suspects] == [2]


FORMULAS = ("=", "+", "-", "@", "\t", "\r")
NAMES = st.text(st.sampled_from("=+-@\t\r'\"a1,\n "))


@given(NAMES, NAMES, NAMES, st.integers(0, 1))
def test_no_exported_cell_starts_a_formula_and_all_values_come_back(
    run: str, file: str, name: str, label: int
) -> None:
    classes = (name, "b")
    suspect = SuspectLabel("aum", "train", 7, label, None, -0.25, None, file)
    ranked = RankedLabel("train", 7, label, None, 0.75, ("aum",), True, file)
    tables = {
        as_csv([Suspicion("aum", (run,), 9, (suspect,), class_names=classes)]): "runs",
        SuspectRanking((run,), (ranked,), 1, class_names=classes).to_csv(): None,
    }
    for text, runs in tables.items():
        (row,) = csv.DictReader(io.StringIO(text, newline=""))
        numbers = {"score": "-0.25"} if runs else {"probability": "0.75"}
        cells = [cell for cell in row.values() if not re.fullmatch(r"[+-]?[\d.]+", cell)]
        assert [cell for cell in cells if cell.startswith(FORMULAS)] == []
        assert row | numbers | {"sample": "7", "given": str(label)} == row
        assert unescape_cell(row["file"]) == file
        assert unescape_cell(row["given_name"]) == classes[label]
        assert runs is None or unescape_cell(row[runs]) == run
