import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from rote.reporting.charts.sensitivity import sum_regions
from rote.selection import Candidates, make_candidates
from rote.selection.regions import find_regions, summarize
from rote.store import RunTable

pytestmark = pytest.mark.xdist_group("figures")

coarse = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, None])
rows = st.lists(st.tuples(coarse, coarse, coarse), min_size=1, max_size=30)
thresholds = st.lists(st.sampled_from([-1.0, 0.0, 0.1, 0.3, 0.5, 2.0]), min_size=1, max_size=5)


def candidates(values: list[tuple[float | None, ...]]) -> Candidates:
    names = ("susceptibility", "train_accuracy", "test_accuracy")
    frame = pl.DataFrame(values, schema=dict.fromkeys(names, pl.Float64), orient="row")
    place = pl.DataFrame({"run": "a", "row": np.arange(len(frame)), "step": np.arange(len(frame))})
    return make_candidates(RunTable(pl.concat([place, frame], how="horizontal"), {}), names[0])


@given(rows, thresholds, thresholds)
def test_region_one_is_what_a_selection_counts(
    values: list[tuple[float | None, ...]], zetas: list[float], trains: list[float]
) -> None:
    everything = candidates(values)
    found = sum_regions(everything, np.array(zetas), np.array(trains))
    count, zeta, train, test, tested = found.region_one()
    for i, zeta_at in enumerate(found.zeta):
        for j, train_at in enumerate(found.train):
            at = {"susceptibility": float(zeta_at), "train_accuracy": float(train_at)}
            expected = summarize(everything, find_regions(everything, at))[0]
            assert count[i, j] == expected.count
            for total, number, mean in (
                (zeta, count, expected.susceptibility),
                (train, count, expected.train_accuracy),
                (test, tested, expected.test_accuracy),
            ):
                assert (number[i, j] == 0) == (mean is None)
                assert mean is None or np.isclose(total[i, j] / number[i, j], mean)
