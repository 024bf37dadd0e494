from pathlib import Path

import numpy as np
import pytest

from rote.reporting.checkpoints import MOST_LISTED, MOST_RUNS, choose_sample, find_notable
from rote.reporting.contents import Contents, read_contents
from rote.reporting.page import render_page
from rote.selection import make_candidates
from rote.store import read_table
from tests.reporting.crowd import crowd
from tests.reporting.stores import write_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("figures")]


@pytest.fixture(scope="module")
def contents() -> Contents:
    return read_contents(crowd())


def test_thinning_keeps_ends_and_picks_and_spaces_the_rest_evenly(tmp_path: Path) -> None:
    everything = make_candidates(
        read_table(write_store(tmp_path, runs=3, steps=40)), "susceptibility"
    )
    found = choose_sample(everything, always=[7], most=12)
    shown = everything.take(found.positions)
    by_run = [shown.step[shown.run == code].tolist() for code in range(3)]
    assert by_run == [[1, 8, 10, 20, 30, 40], *[[1, 10, 20, 30, 40]] * 2]
    assert found.runs.tolist() == found.listed.tolist() == [0, 1, 2]


def test_of_many_runs_some_are_drawn_slow_and_fast_ones_in_proportion(contents: Contents) -> None:
    sample, everything = contents.sample, contents.candidates
    assert MOST_RUNS <= len(sample.runs) <= MOST_RUNS + MOST_LISTED + 150
    assert len(sample.positions) < 15_000
    assert set(everything.run[sample.positions]) == set(sample.runs)
    ends = everything.zeta[np.flatnonzero(np.diff(everything.run, append=-1))]
    for percent in (10, 50, 90):
        share = (ends[sample.runs] <= np.percentile(ends, percent)).mean()
        assert share == pytest.approx(percent / 100, abs=0.1)


def test_picks_and_extremes_and_what_is_next_to_a_threshold_are_drawn(contents: Contents) -> None:
    everything, drawn = contents.candidates, set(contents.sample.positions.tolist())
    shown = everything.take(contents.sample.positions)
    for outcome in contents.outcomes.values():
        if outcome.pick is not None:
            names = [everything.runs[code] for code in shown.run[shown.step == outcome.pick.step]]
            assert outcome.pick.run in names
    for name in ("zeta", "train_accuracy", "test_accuracy", "noisy_accuracy"):
        assert np.nanmax(shown.values(name)) == np.nanmax(everything.values(name))
        assert np.nanmin(shown.values(name)) == np.nanmin(everything.values(name))
    at = contents.verdict.selection.thresholds
    inside = (everything.zeta <= at["susceptibility"]) & (
        everything.values("train_accuracy") >= at["train_accuracy"]
    )
    apart = np.where(inside, at["susceptibility"] - everything.zeta, np.inf)
    assert set(np.argsort(apart)[:50].tolist()) <= drawn
    assert find_notable(everything, {}) == find_notable(everything, at)[:8]


def test_the_table_lists_the_picks_and_those_with_most_of_region_one(contents: Contents) -> None:
    listed = {row.name for row in contents.runs.rows}
    assert len(listed) == MOST_LISTED
    assert contents.runs.total == 1_500
    picks = {outcome.pick.run for outcome in contents.outcomes.values() if outcome.pick}
    assert picks <= listed
    selection = contents.verdict.selection
    counts = dict(
        selection.table.filter(selection.table["region"] == 1)["run"].value_counts().rows()
    )
    least = min(counts.get(name, 0) for name in listed - picks)
    assert all(count <= least for name, count in counts.items() if name not in listed)


def test_a_page_of_many_runs_is_small_and_names_what_is_left_out(contents: Contents) -> None:
    page = render_page(contents)
    drawn, runs = len(contents.sample.positions), len(contents.sample.runs)
    assert len(page.encode()) <= 5_000_000
    assert f"Charts draw {drawn:,} of 60,000 checkpoints" in page
    assert f"of {runs:,} of 1,500 runs" in page
    assert "The table lists 200 of 1,500 runs" in page
    assert page.count("<option") == runs + 1


def test_few_checkpoints_of_many_runs_are_thinned_too() -> None:
    contents = read_contents(crowd(3_000, 2))
    assert len(contents.sample.runs) < 1_400
    assert contents.checkpoints.is_thinned
