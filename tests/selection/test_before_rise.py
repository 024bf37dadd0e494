"""The bend of ζ, against least squares by numpy for every possible bend."""

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings, strategies as st

from rote.errors import InputError
from rote.selection import make_candidates, select
from rote.selection.rules import before_rise
from rote.selection.rules.before_rise import find_bend
from rote.store import RunTable
from tests.selection.tables import Row, table_of


def broken_lines(step: np.ndarray, zeta: np.ndarray) -> list[tuple[float, float, int]]:
    """Squared error and relative rise of every broken line that bends upwards, and where."""
    found = []
    for place in range(1, len(step) - 2):
        basis = np.c_[np.ones(len(step)), step, np.maximum(0, step - step[place])]
        solution = np.linalg.lstsq(basis, zeta, rcond=None)[0]
        _, before, kink = solution
        rise = (before + kink) * (step[-1] - step[place]) / np.ptp(zeta)
        if kink > 0:
            found.append((float(((zeta - basis @ solution) ** 2).sum()), float(rise), place))
    return found


def straight_line(step: np.ndarray, zeta: np.ndarray) -> float:
    basis = np.c_[np.ones(len(step)), step]
    return float(((zeta - basis @ np.linalg.lstsq(basis, zeta, rcond=None)[0]) ** 2).sum())


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.floats(-1, 3).map(lambda v: round(v, 2)), min_size=5, max_size=25),
    st.data(),
)
def test_the_bend_is_that_of_least_squares(values: list[float], data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(1, 9), min_size=len(values), max_size=len(values)))
    step, zeta = np.cumsum(gaps).astype(float), np.array(values)
    sharpness = data.draw(st.sampled_from([0.25, 0.5, 0.75]))
    assume(np.ptp(zeta) > 0)
    found = find_bend(step, zeta, sharpness)
    lines = broken_lines(step, zeta)
    least = min((error for error, _, _ in lines), default=np.inf)
    bar = (1 - sharpness) * straight_line(step, zeta)
    slack = 1e-8 * max(1.0, float(np.ptp(zeta)) ** 2 * len(zeta))
    best = [(error, rise, place) for error, rise, place in lines if error <= least + slack]
    if found is None:
        assert (
            any(error >= bar - slack or rise <= 0.1 + 1e-6 for error, rise, _ in best) or not best
        )
    else:
        assert found in [place for error, rise, place in best if error <= bar + slack]
        assert next(rise for _, rise, place in best if place == found) >= 0.1 - 1e-6


@pytest.mark.parametrize("length", [5, 12, 40, 200])
def test_a_corner_is_found_exactly(length: int) -> None:
    step = np.arange(1.0, length + 1)
    for corner in range(1, length - 2, max(1, length // 7)):
        zeta = 0.1 - 0.001 * step + 0.05 * np.maximum(0, step - step[corner])
        assert find_bend(step, zeta, 0.5) == corner


@pytest.mark.parametrize(
    "zeta",
    [
        np.full(20, 0.3),
        np.linspace(0, 1, 20),
        np.linspace(1, 0, 20),
        1 - np.linspace(0, 1, 20) ** 2,
        np.append(1.0, np.linspace(0.1, 0.12, 19)),
        np.array([0.1, 0.2, 0.9, 3.0]),
    ],
    ids=["flat", "straight up", "straight down", "falling", "only creeping", "too short"],
)
def test_monotone_curve_has_no_bend(zeta: np.ndarray) -> None:
    assert find_bend(np.arange(1.0, len(zeta) + 1), zeta, 0.5) is None


def test_a_million_checkpoints_are_handled() -> None:
    step = np.arange(1.0, 1_000_001)
    noise = np.random.default_rng(0).standard_normal(len(step)) / 1_000
    found = find_bend(step, np.maximum(0, step - 600_000) / 1e6 + noise, 0.5)
    assert found is not None
    assert abs(found - 600_000) < 500


def curve(run: str, corner: int, train: float | None = None, length: int = 20) -> list[Row]:
    more = {} if train is None else {"train_accuracy": train}
    return [
        {"run": run, "step": step, "susceptibility": 0.1 + 0.05 * max(0, step - corner)} | more
        for step in range(1, length + 1)
    ]


def test_the_last_checkpoint_before_the_rise_is_picked() -> None:
    selection = select(table_of(curve("a", 12)), "before-rise")
    assert selection.pick.step == 12
    assert "ζ rises sharply after step 12 of a" in selection.reasons[1].text


def test_without_a_rise_the_last_checkpoint_is_selected() -> None:
    selection = select(table_of(curve("a", 30)), "before-rise")
    assert selection.pick.step == 20
    assert "does not rise sharply" in selection.reasons[1].text


def test_of_several_runs_the_best_trained_is_kept() -> None:
    rows = curve("a", 12, 0.6) + curve("b", 7, 0.8) + curve("c", 40, 0.7)
    selection = select(table_of(rows), "before-rise")
    assert (selection.pick.run, selection.pick.step) == ("b", 7)
    assert "in 2 of 3 runs" in selection.reasons[2].text


def test_of_several_runs_without_training_accuracy_the_lowest_zeta_is_kept() -> None:
    rows = curve("a", 12)
    rows += [row | {"run": "b", "susceptibility": row["susceptibility"] / 2} for row in rows]
    assert select(table_of(rows), "before-rise").pick.run == "b"


def test_every_run_is_judged_as_if_it_were_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(before_rise, "_BLOCK", 50)  # several blocks, and runs of several lengths
    rng = np.random.default_rng(1)
    lengths = rng.choice([1, 4, 5, 20, 33], size=60)
    bars = [rng.random() for _ in lengths]
    runs = [curve(f"{i:02d}", 9, bars[i], int(n)) for i, n in enumerate(lengths)]
    rows = [row for run in runs for row in run]
    candidates = make_candidates(table_of(rows), "susceptibility")
    zeta = candidates.zeta + 0.05 * rng.random(len(candidates))
    starts = np.append(0, lengths.cumsum()[:-1])
    replaced = candidates.table.frame.with_columns(susceptibility=pl.Series(zeta))
    candidates = make_candidates(RunTable(replaced, {}), "susceptibility")
    found = before_rise._find_bends_of_runs(candidates, starts, lengths, 0.5)
    for start, length, bent in zip(starts, lengths, found, strict=True):
        part = slice(start, start + length)
        alone = find_bend(candidates.step[part].astype(float), zeta[part], 0.5)
        assert bent == (-1 if alone is None else alone)
    assert {-1} < set(found)


def test_steps_that_are_all_the_same_have_no_bend() -> None:
    assert find_bend(np.full(9, 3.0), np.arange(9.0) ** 2, 0.5) is None
    assert find_bend(np.arange(9.0), np.array([-1.7e308] * 5 + [1.7e308] * 4), 0.5) is None


def test_short_runs_are_reported() -> None:
    rows = curve("a", 12, 0.6) + curve("b", 1, 0.5, length=3)
    assert "1 of 2 runs have fewer than 5 checkpoints" in " ".join(
        select(table_of(rows), "before-rise").warnings
    )


@pytest.mark.parametrize("value", [-0.1, 1.5, "very"])
def test_sharpness_is_from_0_to_1(value: object) -> None:
    with pytest.raises(
        InputError, match=f"Expected `sharpness` to be a number from 0 to 1, got {value!r}"
    ):
        select("unread", "before-rise", sharpness=value)
