"""The leaderboard of runs that are made of numbers: means over pools, costs, and the page."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rote.store import RunTable
from rote.studies import cost as costs, find_study, write_page
from rote.studies.cost import Cost
from rote.studies.figures.leaderboard import add_paper_forms
from rote.studies.pool import FRESH
from tests.studies.records import made_pool, made_table

pytestmark = pytest.mark.slow

DATA = {"inputs": "images", "holdout": 512, "noise": {"model": "pair", "realized_rate": 0.4}}
SECONDS = {
    "cnn": {"epoch": 2.0, "probe": 0.2, "pass_train": 0.5, "pass_512": 0.1, "pass_256": 0.05},
    "mlp": {"epoch": 1.0, "probe": 0.1, "pass_train": 0.3, "pass_512": 0.1, "pass_256": 0.05},
}


def described(table: RunTable, data: dict[str, Any]) -> RunTable:
    return replace(table, descriptions={run: {"data": data} for run in table.descriptions})


@pytest.fixture(scope="module")
def record() -> Any:
    """Two pools for judging, of which one holds out fewer samples, one for choosing, one fresh."""
    pool = made_pool()
    large = described(made_table(pool, 0), DATA)
    small = described(made_table(pool, 1), {**DATA, "inputs": "bag-of-words", "holdout": 256})
    small = replace(small, frame=small.frame.drop("noisy_validation_512"))
    other = described(made_table(pool, 2), {**DATA, "noise": {"model": "symmetric-inclusive"}})
    late = made_table(pool, 3)
    pools = [
        (replace(pool, name="large-0"), large),
        (replace(pool, name="small-0"), small),
        (replace(pool, name="other-0", is_judged=False), other),
        (replace(pool, name="late-2", group=FRESH, is_judged=False), described(late, DATA)),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "read_costs", lambda: {"networks": SECONDS})
        return json.loads(json.dumps(find_study("leaderboard").measure(pools), allow_nan=False))


def test_means_weight_pools_equally_and_name_them(record: Any) -> None:
    rows = [record["pools"][name]["rows"] for name in ("large-0", "small-0")]
    means = record["means"]["judged"]
    for name, measure in (("GWA", "regret"), ("GWA", "kendall"), ("last checkpoint", "pool")):
        value, low, high = means[name][measure]
        assert value == pytest.approx(np.mean([row[name][measure][0] for row in rows]))
        assert low < high
        assert all(len(row[name][measure]) == 3 for row in rows)
    assert means["noisy validation, n = 512"]["of"] == ["large-0"]
    assert "of" not in means["noisy validation, n = 256"]
    assert "RATT's bound" in record["pools"]["other-0"]["rows"]
    assert "RATT's bound" not in means
    assert {"AUM: fewest below zero", "SELC's loss gap", "oracle"} <= means.keys()


def test_signals_that_stop_a_run_have_no_pick_of_the_pool(record: Any) -> None:
    for rows in (record["pools"]["large-0"]["rows"], record["means"]["judged"]):
        for name in (
            *("LabelWave", "LabelWave, first minimum", "GWA", "GWA, mean of 3 epochs"),
            "highest norm of the weights",
        ):
            assert "pool" not in rows[name]
            assert "kendall" in rows[name]
        assert "pool" in rows["gradient disparity"]


def test_label_wave_and_gwa_are_used_as_their_papers_say_and_csl_per_epoch() -> None:
    waves, aligned = [None, 0.3, 0.2, 0.25, 0.1], [0.1, 0.2, 0.6, None, 0.3]
    losses = [2.0, 3.0, 3.6, 4.0, 4.0]
    frame = pl.DataFrame({
        "run": ["a"] * 5 + ["b"] * 5,
        "step": [5, 4, 3, 2, 1, *range(1, 6)],
        "label_wave": [*waves[::-1], *waves],
        "gwa": [*aligned, *aligned],
        "csl": [*losses[::-1], *losses],
    })  # fmt: skip
    found = add_paper_forms(RunTable(frame, {})).frame
    for run in ("a", "b"):
        rows = found.filter(pl.col("run") == run)
        assert rows["label_wave_first"].to_list() == [None, 0.3, 0.2, None, None]
        assert rows["csl_per_epoch"].to_list() == pytest.approx([2.0, 1.5, 1.2, 1.0, 0.8])
    assert rows["gwa_mean"].to_list() == [None, None, pytest.approx(0.3), None, None]


def test_fresh_pools_are_neither_for_choosing_nor_for_judging(record: Any) -> None:
    groups = {"judged": ["large-0", "small-0"], "chosen": ["other-0"], FRESH: ["late-2"]}
    assert record["groups"] == groups
    late = record["pools"]["late-2"]["rows"]["last checkpoint"]["regret"][0]
    assert record["means"][FRESH]["last checkpoint"]["regret"][0] == late
    finding = find_study("leaderboard").finding(record)
    assert "means over 2 pools" in finding
    assert finding.endswith(f"last checkpoint {100 * late:.1f}.")
    assert "On 1 pool that came later: " in finding


def test_costs_are_passes_samples_and_seconds(record: Any) -> None:
    large, small = (record["pools"][name]["rows"] for name in ("large-0", "small-0"))
    regions = large["regions (the paper's rule)"]["cost"]
    assert regions["held_out"] == 128
    assert regions["seconds"][0] == pytest.approx((0.7 + 0.4) / 2)
    assert regions["seconds"][1] <= regions["seconds"][0] <= regions["seconds"][2]
    assert large["last checkpoint"]["cost"]["seconds"] == [0, 0, 0]
    assert small["last checkpoint"]["cost"]["seconds"] is None  # its networks were not timed
    mean = record["means"]["judged"]["noisy validation, n = 256"]["cost"]
    assert (mean["held_out"], mean["seconds"][0]) == (256, 0.05)
    assert record["epoch"][0] == 1.5


def test_cost_of_a_pass_depends_on_the_holdout_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "read_costs", lambda: {"networks": SECONDS})
    assert Cost(held_out=None, timed=("pass_holdout",)).describe(512, is_timed=True) == {
        "passes": "",
        "held_out": 512,
        "seconds": [0.1, 0.1, 0.1],
        "needs": "",
    }
    assert Cost(timed=("pass_holdout",)).compute_seconds(77) is None


def test_the_page_begins_with_what_a_reader_wants(record: Any) -> None:
    text = write_page(find_study("leaderboard"), record, "small")
    order = ["## In short", "## Pools for judging", "## Pools for choosing constants"]
    order += ["## Fresh pools", "## large-0"]
    places = [text.index(title) for title in order]
    assert places == sorted(places)
    short = text[places[0] : places[1]]
    assert "judging: large, small." in short
    assert "(other)" in short
    assert "An epoch of training takes 1.50 s." in short
    assert "| last checkpoint |" in short
    assert "| noisy validation, n = 512 (1 pools) |" in text
    assert "small-0 holds out fewer samples" in " ".join(text.split())


def test_the_page_shows_where_dawid_skene_collapses(record: Any) -> None:
    study = find_study("leaderboard")
    assert "collapses" not in write_page(study, record, "small")  # these runs have no predictions
    pools = {}
    for name, (estimate, true) in {"large-0": (0.9, 0.4), "late-2": (0.8, 0.7)}.items():
        row = record["pools"][name]["rows"]["GWA"]
        kept = {**row, "error": [0.1, 0.1, 0.1], "at_pick": [estimate, true]}
        posterior = {**kept, "at_pick": [true - 0.02, true]}
        rows = {**record["pools"][name]["rows"], "Dawid–Skene": kept, "posterior": posterior}
        pools[name] = {**record["pools"][name], "rows": rows}
    text = write_page(study, {**record, "pools": {**record["pools"], **pools}}, "small")
    told = " ".join(text.split())
    assert "is 30.0 points too high on average, at worst 50.0 (large-0)" in told
    assert "is off by -2.0." in told
    assert "38.0% (40.0%) | 90.0% (40.0%) |" in told


def test_every_cost_of_a_row_was_timed() -> None:
    file = Path(costs.__file__).parent / "records" / "costs.json"
    networks = json.loads(file.read_text())["networks"]
    assert len(networks) == 10
    asked = {"epoch", "probe", "pass_train", "pass_10", "pass_128", "pass_256", "pass_512"}
    asked |= {"label_wave", "gwa", "selc", "gradient_disparity", "aum", "confident_learning"}
    asked |= {"label_error_detector", "ratt", "pmv"}
    for seconds in networks.values():
        assert asked <= seconds.keys()
        assert all(value > 0 for value in seconds.values())
