"""The grade of evidence, and the measured cost of a rule beside the committed leaderboard."""

import importlib.util
import json
from pathlib import Path

import pytest

from rote.selection import RULES, describe_rule, select
from rote.selection.selection import Evidence
from tests.selection.tables import Row, table_of

ROOT = Path(__file__).parents[2]


def test_the_costs_are_those_of_the_committed_leaderboard() -> None:
    file = ROOT / "benchmarks" / "rule_costs.py"
    spec = importlib.util.spec_from_file_location("rule_costs", file)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    record = json.loads(script.LEADERBOARD.read_text(encoding="utf-8"))
    assert json.loads(script.COSTS.read_text(encoding="utf-8")) == script.compute_costs(record)
    # By hand, from the tables of the leaderboard.
    pools = [record["pools"][n] for group in ("judged", "fresh") for n in record["groups"][group]]
    lost = [pool["rows"]["last checkpoint"]["pool"][0] for pool in pools]
    costs = json.loads(script.COSTS.read_text(encoding="utf-8"))
    assert costs["rules"]["last"]["all_runs"] == pytest.approx(
        100 * sum(lost) / len(lost), abs=0.01
    )


def test_grades_depend_on_rule_and_runs() -> None:
    grades = {name: describe_rule(rule).evidence for name, rule in RULES.items()}
    assert {name for name, grade in grades.items() if grade == "weak"} >= {
        "last",
        "staged",
        "filter",
    }
    assert grades["noisy-validation"] == grades["posterior"] == "fair"
    rows: list[Row] = [
        {"run": run, "step": step, "train_accuracy": step / 20, "validation_accuracy": 0.5}
        for run in "ab"
        for step in range(1, 13)
    ]
    both = select(table_of(rows)).evidence
    alone = select(table_of(rows[:12])).evidence
    assert (both.grade, alone.grade) == ("fair", "fair")
    assert both.points_lost is not None
    assert alone.points_lost is not None
    assert alone.points_lost < both.points_lost  # within a run there is less to lose
    assert "within one run" in alone.cost
    assert select(table_of(rows), "max:train_accuracy").evidence.points_lost is None


def test_grades_are_put_into_words() -> None:
    found = Evidence("weak", "only ζ", 4.33, 15, is_one_run=True)
    assert found.text == (
        "weak (only ζ). In our 15 pools this rule lost 4.3 points on average, within one run."
    )
    assert found.short_cost == "lost 4.3 points on average in our 15 pools"
    nothing = Evidence("fair", "")
    assert (nothing.text, nothing.short_cost) == ("fair", "")
