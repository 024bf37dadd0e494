"""`auto`: which rule it takes, that it says so, and what it never does."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from rote.selection import DEFAULT_RULE, Selection, select
from rote.store import RunTable, read_table
from tests.selection.tables import Row, rows, shuffled, table_of, write_voters
from tests.selection.test_posterior import CLASSES, holdout, write_holdout

GAUGE = "susceptibility_plain_relative"


def took(found: Selection) -> str:
    """Return the rule, as the first reason names it."""
    first, *_, last = found.reasons
    assert (first.kind, last.kind) == ("rule", "improvement")
    assert first.facts["rule"] == found.rule
    assert first.text.startswith(f"Rule: {found.rule} (chosen by auto: ")
    return found.rule


def test_auto_is_the_default_rule() -> None:
    table = table_of([{"run": "a", "step": s, "train_accuracy": s / 20} for s in range(12)])
    assert DEFAULT_RULE == "auto"
    assert took(select(table)) == "last"


def test_several_runs_and_labels_are_for_the_posterior(tmp_path: Path) -> None:
    truth, given_labels, predicted = holdout("pair")
    write_holdout(tmp_path, predicted, given_labels)
    found = select(tmp_path)
    assert took(found) == "posterior"
    assert "6 runs share a holdout set with 400 given labels" in found.reasons[0].text
    assert "clean labels for some of it (clean_labels=, --clean-labels)" in found.reasons[-1].text
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
    assert "one run predicts a holdout set with 400 known labels" in alone.reasons[0].text
    assert alone.pick.score == pytest.approx((predicted[0] == truth).mean(axis=1).max())
    few = np.where(np.arange(len(truth)) < 5, truth, -1)
    write_voters(tmp_path / "bare", predicted, CLASSES)
    found = select(tmp_path / "bare", clean_labels=few, noise_rate=0.4)
    assert took(found) == "consensus"
    assert "only 5 known labels" in found.reasons[0].text
    assert [warning.split(" was not used")[0] for warning in found.warnings[-2:]] == [
        "`noise_rate`",
        "`clean_labels`",
    ]
    unknown = select(tmp_path / "bare", clean_labels=np.full(len(truth), -1))
    assert took(unknown) == "consensus"
    assert "the holdout has no given labels" in unknown.reasons[0].text


def test_runs_without_labels_vote_if_they_are_competent(tmp_path: Path) -> None:
    _, _, predicted = holdout("symmetric")
    write_voters(tmp_path / "able", predicted, CLASSES)
    found = select(tmp_path / "able")
    assert took(found) == "consensus"
    asked = select(tmp_path / "able", rule="consensus")
    assert (found.pick.run, found.pick.step) == (asked.pick.run, asked.pick.step)
    assert "the best checkpoint agrees with the other runs on" in found.reasons[0].text
    dice = np.random.default_rng(0).integers(CLASSES, size=predicted.shape).astype(np.uint8)
    write_voters(tmp_path / "weak", dice, CLASSES)
    weak = select(tmp_path / "weak")
    assert took(weak) == "staged"
    assert "too weak to vote" in weak.reasons[0].text
    gauged = read_table(tmp_path / "weak")
    gauged = replace(gauged, frame=gauged.frame.with_columns(pl.lit(0.1).alias(GAUGE)))
    assert select(gauged).column == GAUGE
    assert took(select(tmp_path / "weak", noise_rate=0.4)) == "noise-rate"


def test_without_a_holdout_zeta_and_training_accuracy_remain() -> None:
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
    assert "ζ is uninformative without training accuracy" in without.reasons[0].text
    assert "of 3 runs it has the lowest ζ" in without.reasons[2].text
    one = select(table_of([row for row in found if row["run"] == "a"]))
    assert took(one) == "filter"
    assert "; ζ and training accuracy decide" in one.reasons[0].text
    assert one.pick.step == 10  # ζ falls: the half with lower ζ is the later one
    assert one.warnings == ()
    short = select(table_of([row for row in found if row["run"] == "b"][:4]))
    assert (took(short), short.pick.step) == ("last", 4)
    assert "4 checkpoints are too few" in short.reasons[0].text


@settings(deadline=None, max_examples=50)
@given(found=rows(gaps=True))
def test_auto_names_its_rule_and_skips_accuracy_drops(found: list[Row]) -> None:
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


def test_posterior_names_checkpoints_skipped_for_an_accuracy_drop(tmp_path: Path) -> None:
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
    assert any(reason.kind == "dropped" for reason in found.reasons)
    assert np.isfinite(found.table["estimated_accuracy"].to_numpy()).all()
    assert json.dumps([vars(suspect) for suspect in found.suspects])


def test_other_rules_name_checkpoints_skipped_for_an_accuracy_drop() -> None:
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
    (dropped,) = (reason for reason in found.reasons if reason.kind == "dropped")
    assert "step 7 of Run" in dropped.text
    rows[6]["validation_accuracy"] = 0.1
    assert not any(reason.kind == "dropped" for reason in select(table_of(rows)).reasons)


def runs_of_two_rates(*, has_gauge: bool) -> RunTable:
    """Two runs without a holdout; live ζ prefers the small learning rate, the gauge the other."""
    rows: list[Row] = []
    for run, live, plain, accuracy in (("small", 0.01, 0.5, 0.7), ("large", 0.9, 0.1, 0.8)):
        for step in range(1, 7):
            row: Row = {
                "run": run,
                "step": step,
                "susceptibility": live,
                "train_accuracy": accuracy,
            }
            rows.append(row | ({GAUGE: plain} if has_gauge else {}))
    table = table_of(rows, samples=None)
    described = {
        run: {**table.descriptions[run], "optimizer": {"class": "SGD", "settings": {"lr": lr}}}
        for run, lr in (("small", 0.001), ("large", 0.1))
    }
    return replace(table, descriptions=described)


def test_runs_of_different_learning_rates_are_compared_by_the_reference_step() -> None:
    selection = select(runs_of_two_rates(has_gauge=True))
    assert (selection.column, selection.pick.run) == (GAUGE, "large")
    assert "differ in learning rate" in str(selection.explanation)
    assert not any("Live ζ" in warning for warning in selection.warnings)
    alike = runs_of_two_rates(has_gauge=True)
    same = dict.fromkeys(alike.descriptions, alike.descriptions["small"])
    assert select(replace(alike, descriptions=same)).column == "susceptibility"


def test_without_a_reference_step_it_says_why_live_zeta_is_doubtful() -> None:
    selection = select(runs_of_two_rates(has_gauge=False))
    assert selection.column == "susceptibility"
    (warning,) = [warning for warning in selection.warnings if "Live ζ" in warning]
    assert "learning rate" in warning
