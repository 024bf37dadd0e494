import base64
import json
import zlib
from pathlib import Path

import numpy as np
import polars as pl

from rote.reporting.contents import contents_of
from rote.reporting.page import page_of
from rote.reporting.payload import packed, payload_of
from rote.store.table import RunTable
from tests.reporting.stores import EVIL_NAMES, write_store

LIMIT = 1_500_000


def test_packed_letters_end_no_script_and_hold_everything() -> None:
    value = {"names": list(EVIL_NAMES), "numbers": [1, 0.25, None]}
    letters = packed(value)
    assert set(letters) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    assert json.loads(zlib.decompress(base64.b64decode(letters))) == value


def test_columns_are_whole_steps_and_a_column_is_written_once(tmp_path: Path) -> None:
    contents = contents_of(write_store(tmp_path, gaps=0.3))
    columns = payload_of(contents)["columns"]
    zeta = contents.candidates.susceptibility
    for step, value in zip(columns["zeta"], zeta.tolist(), strict=True):
        if step is None:
            assert np.isnan(value)
        else:
            assert 0 <= step / contents.zeta_axis.unit - value < 1 / contents.zeta_axis.unit
    fields = {metric.name: metric.field for metric in contents.checkpoints.metrics}
    assert columns["test"] == fields["test_accuracy"]
    assert columns["noisy"] == fields["noisy_accuracy"]
    assert payload_of(contents)["counted"] is None


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
    page = page_of(contents_of(RunTable(frame, descriptions={})))
    assert len(page.encode()) <= LIMIT
    assert 'id="thinned"' not in page
