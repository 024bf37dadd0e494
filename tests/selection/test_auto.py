"""`auto`: which rule it takes, that it says so, and what it never does."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from rote.selection import DEFAULT_RULE, Selection, select
from rote.store import read_table
from tests.selection.tables import Row, rows, shuffled, table_of, write_voters
from tests.selection.test_posterior import CLASSES, holdout, write_holdout

GAUGE = "susceptibility_plain_relative"


def took(found: Selection) -> str:
    """The rule, as the first sentence names it."""
    first = found.reasons[0]
    assert first.startswith(f"Rule `auto` took `{found.rule}`, because ")
    assert "would make it stronger" in found.reasons[-1]
    return found.rule


def test_it_is_the_default() -> None:
    table = table_of([{"run": "a", "step": s, "train_accuracy": s / 20} for s in range(12)])
    assert DEFAULT_RULE == "auto"
    assert took(select(table)) == "last"


def test_several_runs_and_labels_are_for_the_posterior(tmp_path: Path) -> None:
    truth, given_labels, predicted = holdout("pair")
    write_holdout(tmp_path, predicted, given_labels)
    found = select(tmp_path)
    assert took(found) == "posterior"
    assert "6 runs predict one holdout, and 400 of its labels are given" in found.reasons[0]
    assert "right labels for some of it (clean_labels=, --clean-labels)" in found.reasons[-1]
    asked = select(tmp_path, rule="posterior")
    assert found.pick == asked.pick
    assert found.suspects == asked.suspects
    assert found.table.equals(asked.table)
    told = select(tmp_path, noise_rate=0.4, clean_labels=truth)
    assert told.table["estimated_accuracy"].max() == pytest.approx(
        (predicted == truth).mean(axis=2).max()
    )


def test_one_run_has_its_neighbors_or_its_labels(tmp_path: Path) -> None:
    truth, given_labels, predicted = holdout("symmetric")
    write_holdout(tmp_path, predicted[:1], given_labels)
    table = read_table(tmp_path)
    validated = table.frame.with_columns(
        pl.Series("validation_accuracy", (predicted[0] == given_labels).mean(axis=1))
    )
    assert took(select(replace(table, frame=validated))) == "noisy-validation"
    assert took(select(table)) == "last"  # four checkpoints, and nobody voted or validated
    votes = np.eye(CLASSES)[truth] * 0.5 + 0.1
    np.save(tmp_path / "h-0" / "neighbor_votes.npy", votes)
    assert took(select(replace(table, frame=validated))) == "posterior"


def test_clean_labels_are_used_or_it_is_said_that_they_are_not(tmp_path: Path) -> None:
    truth, given_labels, predicted = holdout("symmetric")
    write_holdout(tmp_path / "one", predicted[:1], given_labels)
    alone = select(tmp_path / "one", clean_labels=truth)
    assert took(alone) == "posterior"
    assert "one run predicts a holdout, and 400 of its labels are known" in alone.reasons[0]
    assert alone.pick.score == pytest.approx((predicted[0] == truth).mean(axis=1).max())
    few = np.where(np.arange(len(truth)) < 5, truth, -1)
    write_voters(tmp_path / "bare", predicted, CLASSES)
    found = select(tmp_path / "bare", clean_labels=few, noise_rate=0.4)
    assert took(found) == "consensus"
    assert "only 5 of its labels are known" in found.reasons[0]
    assert [warning.split(" was not used")[0] for warning in found.warnings[-2:]] == [
        "`noise_rate`",
        "`clean_labels`",
    ]
    unknown = select(tmp_path / "bare", clean_labels=np.full(len(truth), -1))
    assert took(unknown) == "consensus"
    assert "none of its labels is given" in unknown.reasons[0]


def test_runs_without_labels_vote_if_they_are_competent(tmp_path: Path) -> None:
    _, _, predicted = holdout("symmetric")
    write_voters(tmp_path / "able", predicted, CLASSES)
    found = select(tmp_path / "able")
    assert took(found) == "consensus"
    asked = select(tmp_path / "able", rule="consensus")
    assert (found.pick.run, found.pick.step) == (asked.pick.run, asked.pick.step)
    assert "are competent (the best agrees with the others on" in found.reasons[0]
    dice = np.random.default_rng(0).integers(CLASSES, size=predicted.shape).astype(np.uint8)
    write_voters(tmp_path / "weak", dice, CLASSES)
    weak = select(tmp_path / "weak")
    assert took(weak) == "staged"
    assert "too weak to vote (the best agrees with the others on" in weak.reasons[0]
    gauged = read_table(tmp_path / "weak")
    gauged = replace(gauged, frame=gauged.frame.with_columns(pl.lit(0.1).alias(GAUGE)))
    assert select(gauged).column == GAUGE
    assert took(select(tmp_path / "weak", noise_rate=0.4)) == "noise-rate"


def test_with_nothing_held_out_zeta_and_training_accuracy_are_left() -> None:
    found: list[Row] = [
        {
            "run": run,
            "step": step,
            "train_accuracy": 0.3 + step / 40,
            "susceptibility": 1 / step,
            GAUGE: step * size / 100,
        }
        for size, run in enumerate("abc", start=1)
        for step in range(1, 11)
    ]
    chosen = select(table_of(found))
    assert took(chosen) == "staged"
    assert chosen.column == "susceptibility"
    asked = select(table_of(found), rule="staged")
    assert chosen.pick == asked.pick
    assert chosen.thresholds == asked.thresholds
    assert chosen.regions == asked.regions
    live = select(table_of(found), column="susceptibility_relative", noise_rate=0.5)
    assert took(live) == "noise-rate"
    bare = [{key: row[key] for key in ("run", "step", "susceptibility")} for row in found]
    without = select(table_of(bare))
    assert took(without) == "last"
    assert "ζ without training accuracy does not tell" in without.reasons[0]
    assert "of 3 runs it has the lowest ζ" in without.reasons[2]
    one = select(table_of([row for row in found if row["run"] == "a"]))
    assert took(one) == "filter"
    assert "no predictions on a holdout are recorded: ζ and training accuracy" in one.reasons[0]
    assert one.pick.step == 10  # ζ falls: the half with lower ζ is the later one
    assert one.warnings == ()
    short = select(table_of([row for row in found if row["run"] == "b"][:4]))
    assert (took(short), short.pick.step) == ("last", 4)
    assert "a run of 4 checkpoints is too short" in short.reasons[0]


@settings(deadline=None, max_examples=50)
@given(found=rows(gaps=True))
def test_it_always_says_what_it_took_and_picks_no_dip(found: list[Row]) -> None:
    table = table_of(found)
    selection = select(table)
    took(selection)
    again = select(shuffled(table, 3))
    assert (again.pick.run, again.pick.step) == (selection.pick.run, selection.pick.step)
    before = [
        row["train_accuracy"]
        for row in found
        if row["run"] == selection.pick.run and row["step"] <= selection.pick.step
    ]
    known = [value for value in before if value is not None and np.isfinite(value)]
    if selection.pick.train_accuracy is not None:
        assert selection.pick.train_accuracy >= max(known) - 0.05


def test_the_posterior_names_what_it_leaves_out_on_a_dip(tmp_path: Path) -> None:
    _, given_labels, predicted = holdout("symmetric")
    write_holdout(tmp_path, predicted, given_labels)
    table = read_table(tmp_path)
    best = select(table).pick
    is_best = (pl.col("run") == best.run) & (pl.col("step") == best.step)
    dipped = table.frame.with_columns(
        train_accuracy=pl.when(is_best).then(0.1).otherwise(pl.col("train_accuracy"))
    )
    found = select(replace(table, frame=dipped))
    assert (found.pick.run, found.pick.step) != (best.run, best.step)
    assert any("its training accuracy dropped at this step" in reason for reason in found.reasons)
    assert np.isfinite(found.table["estimated_accuracy"].to_numpy()).all()
    assert json.dumps([vars(suspect) for suspect in found.suspects])


def test_what_another_rule_leaves_out_on_a_dip_is_named() -> None:
    rows = [
        {
            "run": "Run",
            "step": step,
            "train_accuracy": 0.3 if step == 7 else 0.4 + step / 40,
            "validation_accuracy": 0.9 if step == 7 else 0.5 - abs(step - 5) / 100,
        }
        for step in range(1, 13)
    ]
    found = select(table_of(rows))
    assert (took(found), found.pick.step) == ("noisy-validation", 5)
    assert "Left out is step 7 of Run: its training accuracy dropped at this step." in found.reasons
    rows[6]["validation_accuracy"] = 0.1
    assert not any("dip" in reason for reason in select(table_of(rows)).reasons)
