"""Searches that are replayed over finished runs, and what the study says of them."""

import itertools

import pytest

from rote.studies import find_study, page
from rote.studies.figures.tuning import (
    ALONE,
    OURS,
    TRAINING,
    VALIDATED,
    VALIDATION,
    WAYS,
    SearchedRun,
    _find_end,
    _knee,
    _search,
)
from rote.studies.pool import read_pools
from rote.sweeps import is_surely_below

pytest.importorskip("optuna")
pytestmark = pytest.mark.slow

EPOCHS, BUDGET = 4, 20


def made_trial(name: str, value: float, high: float = 1.0) -> SearchedRun:
    """A run whose estimate is the same at every step."""
    return SearchedRun(
        run=name,
        values={ALONE: value},
        tested={ALONE: value},
        epochs=EPOCHS,
        estimates=dict.fromkeys(range(2, EPOCHS + 1), (value, high)),
        front=(value, value),
    )


def made_grid() -> dict[tuple[float, ...], SearchedRun]:
    axes = ((0.1, 0.2, 0.3), (16, 32), (1, 2), (0.0, 0.5))
    grid = itertools.product(*axes)
    return {key: made_trial(str(key), key[0] + key[3] / 10, key[0] + 0.2) for key in grid}


@pytest.mark.parametrize("prunes", [False, True])
def test_a_search_uses_its_epochs_and_tries_nothing_twice(prunes: bool) -> None:
    trials = made_grid()
    for seed in range(3):
        found, used = _search(trials, seed, BUDGET, lambda t: (t.values[ALONE],), prunes=prunes)
        names = [trial.run for trial in found]
        assert len(set(names)) == len(names)
        assert BUDGET <= used < BUDGET + EPOCHS
        assert EPOCHS * len(found) <= used
        assert (EPOCHS * len(found) == used) or prunes
        again, _ = _search(trials, seed, BUDGET, lambda t: (t.values[ALONE],), prunes=prunes)
        assert [trial.run for trial in again] == names


def test_the_pruner_stops_what_is_surely_below_the_best_so_far() -> None:
    best = made_trial("best", 0.8)
    assert _find_end(made_trial("poor", 0.2, 0.5), [best], is_surely_below) == 2
    assert _find_end(made_trial("open", 0.2, 0.9), [best], is_surely_below) is None
    assert _find_end(made_trial("first", 0.2, 0.5), [], is_surely_below) is None


def test_the_knee_is_high_above_the_line_between_the_ends() -> None:
    fronts = {"low": (0.0, 0.1), "knee": (0.2, 0.8), "high": (1.0, 0.9), "worse": (0.9, 0.2)}
    trials = [
        SearchedRun(name, {}, {TRAINING: 0.5}, EPOCHS, {}, front) for name, front in fronts.items()
    ]
    assert _knee(trials).run == "knee"


def test_the_page_compares_searches_seed_by_seed() -> None:
    pool = next(pool for pool in read_pools("small") if pool.group == "tuning")
    searches = {way: [[0.5, 300, 15], [0.7, 300, 15]] for way in WAYS}
    searches[OURS] = [[0.8, 300, 15], [0.9, 300, 15]]
    searches[VALIDATED] = [[0.7, 300, 15], [0.8, 300, 15]]
    study = find_study("tuning")
    record = study.measure([(pool, {"best": 0.95, "runs": 60, "searches": searches})])
    ways = record["pools"][pool.name]["ways"]
    assert ways[OURS]["tested"] == pytest.approx(0.85)
    assert ways[VALIDATION]["behind_ours"] == pytest.approx([0.25, 0.05])
    text = " ".join(page(study, record, "small").split())
    assert f"*noisy validation*: {pool.name} +25.0 ± 5.0" in text
    assert f"*noisy validation + auto*: {pool.name} +10.0 ± 0.0" in text
    assert "| best of the grid | 95.0 | 95.0 |" in text
