import base64
import json
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rote.reporting import contents as contents_module
from rote.reporting.contents import read_contents
from rote.reporting.page import build_payload, list_numbers, pack_json, render_page
from rote.store import RunTable
from tests.reporting.stores import EVIL_NAMES, write_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("figures")]

LIMIT = 1_500_000


def test_packed_payload_is_script_safe_and_complete() -> None:
    value = {"names": list(EVIL_NAMES), "numbers": [1, 0.25, None]}
    letters = pack_json(value)
    assert set(letters) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    assert json.loads(zlib.decompress(base64.b64decode(letters))) == value


def test_numbers_are_there_in_full_and_a_column_is_written_once(tmp_path: Path) -> None:
    contents = read_contents(write_store(tmp_path, gaps=0.3), rule="staged")
    columns, everything = build_payload(contents)["columns"], contents.candidates
    zeta, train, test = np.frombuffer(list_numbers(contents)).reshape(3, -1)
    assert np.isnan(zeta).any()
    assert np.array_equal(zeta, everything.zeta, equal_nan=True)
    assert np.array_equal(train, everything.values("train_accuracy"))
    assert np.array_equal(test, everything.values("test_accuracy"))
    fields = {metric.name: metric.field for metric in contents.checkpoints.metrics}
    told = {"susceptibility": "zeta", "train_accuracy": "train", "test_accuracy": "test"}
    for name, other in told.items():
        assert columns[fields[name]] == other
    assert isinstance(columns[fields["validation_accuracy"]], list)
    assert fields["susceptibility_relative"] not in columns  # nothing that no hint shows


def test_thinned_page_records_which_checkpoints_it_draws(tmp_path: Path) -> None:
    contents = read_contents(write_store(tmp_path, runs=11, steps=1000), rule="staged")
    zeta = contents.candidates.zeta
    drawn = build_payload(contents)["positions"]
    counted = np.frombuffer(list_numbers(contents)).reshape(3, -1)[0]
    assert len(counted) == 11_000
    assert len(drawn) == len(contents.checkpoints.positions) < 11_000
    assert np.array_equal(counted[drawn], zeta[contents.checkpoints.positions])
    assert build_payload(contents)["cells"] is None


def test_a_page_of_many_checkpoints_has_sums_between_all_thresholds_it_can_be_set_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents_module, "MOST_COUNTED", 50)
    contents = read_contents(write_store(tmp_path, gaps=0.2), rule="staged")
    told, numbers = build_payload(contents), np.frombuffer(list_numbers(contents))
    drawn = len(contents.checkpoints.positions)
    assert told["positions"] is None
    assert np.array_equal(numbers[:drawn], contents.candidates.zeta, equal_nan=True)
    zetas, trains = told["cells"]
    assert len(numbers) == 3 * drawn + 5 * (len(zetas) + 1) * (len(trains) + 1)
    assert set(contents.zeta_axis.stops) <= set(zetas)
    for preset in told["presets"].values():
        assert preset["zeta"] in zetas
        assert preset["train"] in trains
    assert len(contents.zeta_axis.stops) <= 202
    assert len(contents.train_axis.stops) <= 202


def test_fifty_runs_of_two_hundred_checkpoints_fit() -> None:
    rng = np.random.default_rng(0)
    names = ["train_accuracy", "test_accuracy", "clean_accuracy", "noisy_accuracy", "lr", "loss"]
    names += ["susceptibility", "susceptibility_relative", "susceptibility_plain", "drop"]
    names += ["susceptibility_plain_relative", "validation_accuracy", "loss_before", "loss_after"]
    frame = pl.DataFrame(
        {
            "run": np.repeat([f"run-{i:02d}" for i in range(50)], 200),
            "row": np.tile(np.arange(200), 50),
            "step": np.tile(np.arange(1, 201), 50),
        }
        | {name: rng.random(10_000) for name in names}
    )
    page = render_page(read_contents(RunTable(frame, descriptions={})))
    assert len(page.encode()) <= LIMIT
    assert 'id="thinned"' not in page
