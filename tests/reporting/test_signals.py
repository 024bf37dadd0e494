"""Signals side by side: picks against the rules, agreement against counting pairs."""

from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from rote.errors import InputError
from rote.records import Column
from rote.reporting.charts import CHARTS
from rote.reporting.charts.signals import SignalsRecord, _cells, compare_signals
from rote.reporting.contents import read_contents
from rote.selection import make_candidates, select
from rote.store import RunTable
from tests.reporting.conftest import Open, Page
from tests.reporting.crowd import crowd
from tests.reporting.stores import SCRIPT, STORES, write_store
from tests.selection.test_posterior import holdout, write_holdout

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

BETTER = {"susceptibility": -1, "alignment": 1, "flips": -1, "bound": -1, "test_accuracy": 1}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("signals"), **STORES["signals"])


def naive_tau(one: list[float | None], other: list[float | None]) -> float | None:
    """Kendall's τ-b, pair by pair."""
    both = [(x, y) for x, y in zip(one, other, strict=True) if x is not None and y is not None]
    concordant = ties_x = ties_y = pairs = 0
    for (x, y), (u, v) in combinations(both, 2):
        pairs += 1
        ties_x += x == u
        ties_y += y == v
        concordant += ((x > u) - (x < u)) * ((y > v) - (y < v))
    if (pairs - ties_x) * (pairs - ties_y) == 0:
        return None
    return concordant / float(np.sqrt((pairs - ties_x) * (pairs - ties_y)))


def test_a_pick_is_the_checkpoint_that_its_rule_keeps(store: Path) -> None:
    picks = read_contents(store).signal_picks
    assert [pick.column.name for pick in picks] == list(BETTER)[:-1]
    assert [pick.knows for pick in picks] == [False, False, False, True]
    for pick in picks:
        chosen = select(store, rule=pick.rule)
        assert pick.rule.startswith("max:" if BETTER[pick.column.name] > 0 else "min:")
        assert (pick.run, pick.step) == (chosen.pick.run, chosen.pick.step)
        assert pick.test == chosen.pick.test_accuracy
        assert pick.estimated is None


def test_agreement_of_signals_counts_pairs_with_the_truth_as_the_last_row(store: Path) -> None:
    record = CHARTS["signals"].record(read_contents(store))
    frame = make_candidates(read_contents(store).candidates.table, "susceptibility").table.frame
    assert record.names[-1] == "test accuracy"
    signed = [[sign * v for v in frame[name].to_list()] for name, sign in BETTER.items()]
    for i, one in enumerate(signed):
        for j, other in enumerate(signed):
            expected = 1.0 if i == j else naive_tau(one, other)
            assert record.agreement[i][j] == pytest.approx(expected)


VALUES = st.one_of(st.none(), st.integers(-3, 3).map(float))


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=25))
def test_ties_missing_values_and_signs_are_handled(rows: list[tuple[float | None, ...]]) -> None:
    names = ("a", "b", "c")
    columns = {
        name: pl.Series([row[place] for row in rows], dtype=pl.Float64)
        for place, name in enumerate(names)
    }
    places = {"run": ["r"] * len(rows), "row": range(len(rows)), "step": range(len(rows))}
    table = RunTable(pl.DataFrame({**places, **columns}), {"r": {}})
    described = [Column("a", "a", better="higher"), Column("b", "b", better="lower")]
    described.append(Column("c", "c", better="higher"))
    candidates = make_candidates(table, "susceptibility")
    found = compare_signals(candidates, described, np.arange(len(rows)))
    signs = (1, -1, 1)
    for i, j in combinations(range(3), 2):
        one, other = ([None if r[k] is None else signs[k] * r[k] for r in rows] for k in (i, j))
        expected = naive_tau(one, other)
        assert found[i][j] == found[j][i]
        assert found[i][j] is None if expected is None else found[i][j] == pytest.approx(expected)


def test_posterior_estimate_is_shown_for_every_leading_rule(tmp_path: Path) -> None:
    _, given_labels, predicted = holdout("symmetric")
    write_holdout(tmp_path, predicted, given_labels)
    estimate = select(tmp_path, rule="posterior").table
    for rule in (None, "staged"):
        picks = read_contents(tmp_path, rule=rule).signal_picks
        assert [p.column.name for p in picks] == ["susceptibility", "estimated_accuracy"]
        for pick in picks:
            row = estimate.filter((pl.col("run") == pick.run) & (pl.col("step") == pick.step))
            assert pick.estimated == row["estimated_accuracy"].item()


def test_no_comparison_is_shown_for_one_signal(tmp_path: Path) -> None:
    contents = read_contents(write_store(tmp_path / "runs"))
    assert contents.signals == ()  # the accuracy on given labels is 0.5 everywhere
    assert contents.signal_picks == ()
    with pytest.raises(InputError, match="fewer than 2 signals that differ"):
        CHARTS["signals"].record(contents)


def test_of_many_checkpoints_evenly_spaced_ones_are_compared_and_picks_are_drawn() -> None:
    table = crowd()
    noise = np.random.default_rng(0).random(len(table.frame))
    frame = table.frame.with_columns(dice=pl.Series(noise), more=pl.Series(noise**2))
    told = {name: {"better": "higher"} for name in ("dice", "more")}
    described = {"run-00000": {"columns": told}}
    contents = read_contents(RunTable(frame, {**table.descriptions, **described}))
    record = CHARTS["signals"].record(contents)
    assert 9_000 <= record.checkpoints < 12_000 < len(frame)
    assert {pick.position for pick in record.picks} <= set(contents.sample.positions.tolist())
    places = [("susceptibility", "dice", "more").index(p.column.name) for p in record.picks]
    assert places == [0, 1, 2]
    assert record.agreement[1][2] == pytest.approx(1.0)
    assert abs(record.agreement[0][1]) < 0.05


def test_the_map_formats_numbers() -> None:
    agreement = ((1.0, -0.004, None), (-0.004, 1.0, 0.996), (None, 0.996, 1.0))
    cells = _cells(SignalsRecord((), ("a", "b", "a"), agreement, 3, 0))
    assert [cell["text"] for cell in cells] == [
        "",
        "−.00",
        "–",
        "−.00",
        "",
        "1.00",
        "–",
        "1.00",
        "",
    ]
    assert [cell["row"] for cell in cells[::3]] == ["1 a", "2 b", "3 a"]
    assert [cell["value"] for cell in cells[:3]] == [0.0, -0.004, 0.0]


def test_the_page_has_a_row_per_signal_and_fits_a_phone(page: Page, visit: Open) -> None:
    for width, labels in ((1280, "1 ζ"), (390, "1")):
        opened = visit(page("signals"), width=width)
        rows = opened.page.query_selector_all("#signals-table tbody tr")
        assert len(rows) == 4
        assert SCRIPT in rows[1].text_content()
        assert "knows which labels are right" in rows[3].text_content()
        drawn = opened.page.eval_on_selector_all(
            "#chart-signals .mark-text.role-mark text", "texts => texts.map(t => t.textContent)"
        )
        assert len(drawn) == 25  # five of them empty
        axis = opened.page.eval_on_selector_all(
            "#chart-signals .role-axis-label text", "texts => texts.map(t => t.textContent)"
        )
        assert labels in axis
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
        widest = opened.page.eval_on_selector(
            "#chart-signals", "chart => chart.firstElementChild.scrollWidth - chart.clientWidth"
        )
        assert widest <= 0
        opened.end()
