"""The highest or lowest value of any column, described or not."""

from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from rote.errors import InputError
from rote.records import COLUMNS
from rote.selection import select
from tests.selection import naive
from tests.selection.tables import VALUES, Row, rows, table_of

GWA = {"gwa": {"label": "gradient alignment", "kind": "signal", "better": "higher"}}


def recorded(*values: float | None, **more: Any) -> list[Row]:
    return [
        {"run": "a", "step": step, "susceptibility": 0.1, "gwa": value} | more
        for step, value in enumerate(values, start=1)
    ]


@pytest.mark.parametrize("direction", ["max", "min"])
@settings(deadline=None, max_examples=60)
@given(found=rows(gaps=True), column=st.sampled_from(VALUES))
def test_the_pick_is_that_of_plain_loops(direction: str, found: list[Row], column: str) -> None:
    known = [row for row in found if naive.has(row, column)]
    assume(known)
    sign = -1 if direction == "max" else 1
    expected = naive.first(known, "susceptibility", lambda row: sign * row[column])
    pick = select(table_of(found), f"{direction}:{column}").pick
    assert (pick.run, pick.step) == (expected["run"], expected["step"])


def test_sentences_use_the_label_of_the_column() -> None:
    table = table_of(recorded(0.25, 0.75, 0.5), columns=GWA)
    selection = select(table, "max:gwa")
    assert (selection.rule, selection.pick.step) == ("max:gwa", 2)
    assert selection.reasons[1].text == (
        "The selected checkpoint, step 2 of a, has the highest gradient alignment (`gwa`) of 3 "
        "checkpoints: 0.75."
    )
    shares = {"gwa": {"label": "gwa", "unit": "share"}}
    reason = select(table_of(recorded(0.25, 0.75), columns=shares), "min:gwa").reasons[1].text
    assert reason.endswith("has the lowest gwa of 2 checkpoints: 25.00%.")


def test_undescribed_column_can_be_selected_by_without_zeta() -> None:
    rows = [{"run": "a", "step": step, "gwa": step / 4} for step in range(1, 12)]
    selection = select(table_of(rows), "min:gwa")
    assert selection.pick.step == 1
    assert selection.pick.susceptibility is None
    assert selection.reasons[1].text.endswith("has the lowest gwa of 11 checkpoints: 0.25.")


def test_percent_is_never_multiplied_again() -> None:
    shares = {"gwa": {"unit": "share"}}
    selection = select(table_of(recorded(68.0, 12.0), columns=shares), "max:gwa")
    assert "%" not in " ".join(map(str, selection.reasons))
    assert "`gwa` reaches 68: accuracies are shares from 0 to 1" in " ".join(selection.warnings)


def test_the_wrong_direction_and_the_truth_are_warned_about() -> None:
    table = table_of(recorded(*(step / 20 for step in range(12))), columns=GWA)
    assert [w for w in select(table, "max:gwa").warnings if "gwa" in w] == []
    (warning,) = (w for w in select(table, "min:gwa").warnings if "gwa" in w)
    assert warning == (
        "A better checkpoint has a higher `gwa`: `min:gwa` keeps the worst. Use `max:gwa`."
    )
    table = table_of(recorded(0.5, 0.25, clean_accuracy=0.5))
    text = " ".join(select(table, "max:clean_accuracy").warnings)
    assert "`clean_accuracy` needs to know which labels are correct" in text


def test_zeta_is_that_of_the_selected_column() -> None:
    rows = recorded(1, 2, 3, loss_before=2.0)
    for row, plain in zip(rows, (0.3, 0.2, 0.1), strict=True):
        row["susceptibility_plain"] = plain
    assert select(table_of(rows), "min:zeta", column="susceptibility_plain").pick.step == 3
    rows[2] |= {"flags": ["non_finite"], "loss_before": None}
    assert select(table_of(rows), "min:susceptibility_plain").pick.step == 2


def test_a_metric_whose_name_the_table_needs_is_found() -> None:
    rows = [{"run": "a", "step": step, "metric:score": -step} for step in (1, 2)]
    assert select(table_of(rows), "min:score").pick.step == 2


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("max:", "Expected `rule` to name a column, such as max:train_accuracy, got 'max:'"),
        ("max:gwaa", r"'max:gwaa' needs `gwaa`, .* Did you mean 'gwa'\?"),
        ("max:run", "'max:run' needs `run`, and none of the 2 checkpoints has a finite one"),
        ("most:gwa", "Cannot import 'most:gwa' .`rule`."),
    ],
)
def test_mistakes_are_named(rule: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        select(table_of(recorded(0.5, 0.25)), rule)


def test_reasons_name_known_columns_by_their_label() -> None:
    rows = recorded(1, 2, validation_accuracy=0.5)
    reason = select(table_of(rows), "max:validation_accuracy").reasons[1].text
    assert COLUMNS["validation_accuracy"].label in reason
    assert "50.00%" in reason
