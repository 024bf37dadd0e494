"""The front door: arguments, reasons, warnings, the JSON contract."""

import json
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rote.errors import InputError
from rote.selection import RULES, Candidates, Decision, Selection, select
from rote.store import read_table
from tests.selection.tables import Row, known_options, table_of, write_voters


def spread(count: int = 12, runs: int = 2, **more: Any) -> list[Row]:
    """Checkpoints whose ζ and training accuracy rise together."""
    return [
        {
            "run": f"run{run}",
            "step": step,
            "susceptibility": step / 100,
            "train_accuracy": 0.4 + step / 100 + run / 1000,
        }
        | more
        for run in range(runs)
        for step in range(1, count + 1)
    ]


def memorized() -> list[Row]:
    """The few resistant checkpoints are far below the mean training accuracy."""
    resistant = [
        {"run": "a", "step": step, "susceptibility": 0.01, "train_accuracy": 0.4 + step / 100}
        for step in range(1, 4)
    ]
    others = [
        {"run": "b", "step": step, "susceptibility": 1.0, "train_accuracy": 0.99}
        for step in range(1, 10)
    ]
    return resistant + others


def test_json_is_the_object_of_the_contract() -> None:
    table = table_of(spread(test_accuracy=0.5))
    found = json.loads(json.dumps(select(table, "regions").to_json(), allow_nan=False))
    old = ["rule", "thresholds", "pick", "regions", "warnings"]
    assert [key for key in found if key in old] == old
    assert found["rule"] == "regions"
    assert found["thresholds"] == {
        "susceptibility": pytest.approx(0.065),
        "train_accuracy": pytest.approx(0.4655),
    }
    assert found["pick"] == {
        "run": "run1",
        "step": 6,
        "susceptibility": 0.06,
        "train_accuracy": pytest.approx(0.461),
        "region": 3,
        "file": None,
        "path": None,
        "estimated_accuracy": None,
        "interval": None,
        "test_accuracy": 0.5,
    }
    assert (found["confidence"], found["noise_rate"], found["suspects"]) == (None, None, [])
    keys = ["region", "count", "train_accuracy", "susceptibility", "test_accuracy"]
    assert [list(entry) for entry in found["regions"]] == [keys] * 4
    assert [entry["region"] for entry in found["regions"]] == [1, 2, 3, 4]
    assert found["regions"][0] == {
        "region": 1,
        "count": 0,
        "train_accuracy": None,
        "susceptibility": None,
        "test_accuracy": None,
    }
    assert found["regions"][1]["count"] == 12
    assert all(isinstance(sentence, str) for sentence in found["warnings"])


def test_json_has_test_accuracy_only_where_it_is_known() -> None:
    found = select(table_of(spread()), "staged").to_json()
    keys = ["region", "count", "train_accuracy", "susceptibility"]
    assert [list(entry) for entry in found["regions"]] == [keys] * 4


def test_a_selection_is_frozen_and_names_its_criteria() -> None:
    selection = select(table_of(spread()), "filter")
    assert (selection.rule, selection.column) == ("filter", "susceptibility")
    assert selection.reasons[0].text == "Rule: filter, by `susceptibility`."
    assert "12 of 24 checkpoints have ζ of at most 0.065, its median" in selection.reasons[1].text
    assert "step 6 of run1" in selection.reasons[2].text
    assert "46.10%; its ζ of 0.06 is 0.005 below the threshold" in selection.reasons[2].text
    with pytest.raises(FrozenInstanceError):
        selection.rule = "other"  # type: ignore[misc]


def test_reasons_say_how_far_the_pick_is_from_the_thresholds() -> None:
    reasons = " ".join(map(str, select(table_of(spread()), "staged", prefer="accuracy").reasons))
    assert "Resistant means ζ of at most 0.065, its mean" in reasons
    assert "at least 43.55%, its mean among resistant checkpoints" in reasons
    assert "46.10%, 2.55 points above the threshold" in reasons


def test_an_unknown_rule_lists_all_and_guesses() -> None:
    with pytest.raises(
        InputError, match=r"one of auto, regions, staged, .*, got 'region'\. Did you mean"
    ):
        select("unread", "region")
    with pytest.raises(InputError, match=r"Expected `rule` to be one of .*, got 'xyz'\.$"):
        select("unread", "xyz")


def test_an_unknown_option_names_those_of_the_rule() -> None:
    with pytest.raises(InputError, match=r"'percentile' has no option `t3`. It has t1, t2"):
        select("unread", "percentile", t3=1)
    with pytest.raises(InputError, match=r"'last' has no option `t1`. It has none"):
        select("unread", "last", t1=1)
    with pytest.raises(InputError, match=r"takes no further options .*'t1'"):
        select("unread", RULES["last"](), t1=1)


def test_an_unknown_column_lists_the_four() -> None:
    with pytest.raises(InputError, match=r"one of susceptibility, .*_plain_relative, got 'zeta'"):
        select(table_of(spread()), column="zeta")


def test_missing_column_names_rules_that_do_not_need_it() -> None:
    rows = [{"run": "a", "step": 1, "susceptibility": 0.5}]
    message = r"'regions' needs `train_accuracy`, .*\(auto, .*before-rise"
    with pytest.raises(InputError, match=message):
        select(table_of(rows), "regions")
    with pytest.raises(InputError, match="'before-rise' needs `susceptibility_plain`"):
        select(table_of(rows), "before-rise", column="susceptibility_plain")


def test_no_checkpoints_is_an_error() -> None:
    with pytest.raises(InputError, match="The runs have no checkpoints"):
        select(table_of([]), "last")


def warnings_of(rows: list[Row], rule: str = "regions", **options: Any) -> str:
    return " | ".join(select(table_of(rows), rule, **options).warnings)


def test_usual_runs_give_no_warning() -> None:
    assert warnings_of(spread(), "staged") == ""


def test_empty_region_one_and_origin_of_the_pick_are_reported() -> None:
    selection = select(table_of(memorized()), "regions")
    text = " ".join(selection.warnings)
    assert "Region 1 is empty: no resistant checkpoint reaches the training accuracy" in text
    assert "84.75%" in text
    assert "The selected checkpoint is in Region 3" in text
    assert (selection.pick.run, selection.pick.step, selection.pick.region) == ("a", 3, 3)
    staged = select(table_of(memorized()), "staged")
    assert staged.warnings == ()
    assert (staged.pick.run, staged.pick.step, staged.pick.region) == ("a", 3, 1)


def test_nearly_empty_region_one_is_reported() -> None:
    rows = spread(60)
    rows[0]["train_accuracy"] = 1.0
    assert "Region 1 has only 1 of 120 checkpoints. Rule `staged`" in warnings_of(rows)


def test_few_checkpoints_are_reported() -> None:
    assert "Only 8 checkpoints: fewer than 10" in warnings_of(spread(4))
    assert "Only" not in warnings_of(spread(5), "staged")


def test_single_run_is_reported_by_rules_that_compare_runs() -> None:
    assert "Rule `staged` compares runs, and only one has what it needs" in warnings_of(
        spread(runs=1), "staged"
    )
    assert warnings_of(spread(runs=1), "last") == ""


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_checkpoints_without_a_value_are_skipped_with_a_warning(value: float | None) -> None:
    rows = spread()
    rows[3]["susceptibility"] = value
    rows[4]["train_accuracy"] = value
    selection = select(table_of(rows), "staged")
    text = " ".join(selection.warnings)
    assert "Left out: 1 of 24 checkpoints, with no finite `susceptibility`." in text
    assert "Left out: 1 of 24 checkpoints, with no finite `train_accuracy`." in text
    assert selection.table["region"].null_count() == 2
    assert sum(entry.count for entry in selection.regions) == 22


def test_without_training_accuracy_there_are_no_regions() -> None:
    rows = [{"run": "a", "step": step, "susceptibility": step / 10} for step in range(1, 12)]
    selection = select(table_of(rows), "last")
    assert selection.warnings == ()  # the rule does not ask for them
    assert (selection.pick.step, selection.pick.region) == (11, None)
    assert selection.to_json()["thresholds"] == {}


def test_mean_dominated_by_one_outlier_is_reported() -> None:
    rows = spread(20)
    rows[0]["susceptibility"] = 1e6
    text = warnings_of(rows, "staged")
    assert "97.5% of the checkpoints have ζ below the threshold of 2.5e+04" in text
    assert "up to 1e+06 at step 1 of run0" in text
    assert warnings_of(rows, "filter") == ""


@pytest.mark.parametrize(
    ("flag", "column", "is_said"),
    [
        ("dominated", "susceptibility", True),
        ("dominated", "susceptibility_plain", False),
        ("dominated_plain", "susceptibility_plain", True),
        ("dominated", "susceptibility_relative", False),
        ("diverging", "susceptibility_relative", True),
        ("diverging", "susceptibility_plain_relative", False),
        ("diverging_plain", "susceptibility_plain_relative", True),
        ("non_finite_plain", "susceptibility_plain", True),
        ("non_finite", "susceptibility", True),
    ],
)
def test_anomalous_readings_are_reported_for_their_column(
    flag: str, column: str, is_said: bool
) -> None:
    rows = spread(
        susceptibility_relative=0.1, susceptibility_plain=0.1, susceptibility_plain_relative=0.1
    )
    for row in rows[:3]:
        row["flags"] = [flag]
    text = warnings_of(rows, "last", column=column)
    assert ("ζ of 3 of 24 checkpoints is" in text and f"(`{flag}`)" in text) == is_said
    rows[-1]["flags"] = ["other", flag]
    text = warnings_of(rows, "last", column=column)
    assert ("ζ of 4 of 24 checkpoints, including the selected one, is" in text) == is_said


@pytest.mark.parametrize(("loss", "is_left_out"), [(None, True), (math.nan, True), (2.0, False)])
def test_diverged_network_is_not_a_candidate(loss: float | None, is_left_out: bool) -> None:
    rows = spread(loss_before=2.0)
    best = select(table_of(rows), "staged").pick
    for row in rows:
        if (row["run"], row["step"]) == (best.run, best.step):
            row |= {"flags": ["non_finite"], "loss_before": loss}  # ζ is of the readings before
    selection = select(table_of(rows), "staged")
    assert ((selection.pick.run, selection.pick.step) != (best.run, best.step)) == is_left_out
    said = "Left out: 1 of 24 checkpoints, with no finite `susceptibility`."
    assert (said in selection.warnings) == is_left_out


def test_percent_is_not_multiplied_again() -> None:
    rows = [row | {"train_accuracy": 100 * row["train_accuracy"]} for row in spread()]
    selection = select(table_of(rows), "staged")
    said = " ".join(map(str, (*selection.reasons, *selection.warnings)))
    assert "training accuracy of at least 43.5" in said
    assert "%" not in " ".join(map(str, selection.reasons))
    assert "Divide percent by 100" in said


def test_each_column_gives_its_own_zeta() -> None:
    rows = spread()
    for row in rows:
        row["susceptibility_plain"] = 1 - row["susceptibility"]
    selection = select(table_of(rows), "staged", column="susceptibility_plain")
    assert selection.pick.step == 12
    assert selection.pick.susceptibility == pytest.approx(0.88)
    assert "ζ (`susceptibility_plain`) of at most" in selection.reasons[1].text


def test_user_rule_can_be_passed() -> None:
    @dataclass(frozen=True)
    class First:
        name: ClassVar[str] = "first"
        needs: ClassVar[tuple[str, ...]] = ()
        compares_runs: ClassVar[bool] = False

        def judge(self, candidates: Candidates) -> Decision:
            return Decision(0, (f"{len(candidates)} candidates.",))

    selection = select(table_of(spread()), First())
    assert (selection.rule, selection.pick.run, selection.pick.step) == ("first", "run0", 1)


def test_directories_lists_and_tables_give_the_same(tmp_path: Path) -> None:
    write_voters(tmp_path, np.zeros((2, 6, 3), dtype=np.int64), 4)
    given: list[Any] = [tmp_path, str(tmp_path), sorted(tmp_path.iterdir()), read_table(tmp_path)]
    found: list[Selection] = [select(runs, "staged") for runs in given]
    assert all(selection.to_json() == found[0].to_json() for selection in found)
    assert found[0].pick.path == tmp_path / "h-0"
    assert found[0].pick.test_accuracy == 0.25


def test_selecting_never_imports_torch_and_importing_no_polars(tmp_path: Path) -> None:
    given = np.array([0, 0, 1])
    write_voters(tmp_path, np.zeros((2, 6, 3), dtype=np.int64), 4, given=given)
    options = {rule: known_options(rule) for rule in RULES}
    code = (
        "import sys, rote.selection\n"
        "assert not {'torch', 'polars', 'scipy'} & set(sys.modules)\n"
        "rote.selection.select(sys.argv[1])\n"
        f"for rule, options in {options}.items():\n"
        "    rote.selection.select(sys.argv[1], rule, **options)\n"
        "rote.selection.agreement(sys.argv[1])\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_accuracies_in_percent_give_a_warning() -> None:
    rows = spread()
    rows[0]["train_accuracy"] = 95.0
    assert "`train_accuracy` reaches 95: accuracies are shares" in warnings_of(rows, "filter")


def test_percent_can_be_divided() -> None:
    rows = spread(validation_accuracy=0.5)
    shares = select(table_of(rows), "staged")
    hundreds = [row | {"train_accuracy": 100 * row["train_accuracy"]} for row in rows]
    found = select(table_of(hundreds), "staged", percent=True)
    assert found.pick.train_accuracy == pytest.approx(shares.pick.train_accuracy)
    assert found.pick.validation_accuracy == 0.5  # a share already
    assert found.reasons == shares.reasons
    assert found.warnings == shares.warnings
    with pytest.raises(InputError, match="`percent` has nothing to convert"):
        select(table_of(rows), "staged", percent=True)


@pytest.mark.parametrize("rule", [name for name in RULES if name not in ("consensus", "posterior")])
def test_no_share_is_ever_written_as_thousands_of_percent(rule: str) -> None:
    accuracies = {"validation_accuracy": 68.0, "test_accuracy": 68.0, "noisy_accuracy": 6.8}
    rows = [row | {"train_accuracy": 68.0} | accuracies for row in spread()]
    try:
        selection = select(table_of(rows), rule)
    except InputError:
        return
    text = f"{selection}{selection._repr_html_()}{selection.to_json()}"
    assert "00%" not in text.replace("100%", "").replace("0.00%", "")
    assert "--percent" in text
