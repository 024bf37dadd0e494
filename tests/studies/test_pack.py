"""A packed pool says what the runs said."""

from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError
from rote.selection import select
from rote.store import read_table
from rote.studies import pack, unpack
from rote.workloads import RunSpec, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    for width in (8, 32):
        spec = {
            "name": f"mlp-{width}",
            "epochs": 3,
            "data": {"name": "digits", "train_size": 300},
            "noise": {"model": "symmetric-inclusive", "rate": 0.5},
            "architecture": {"name": "mlp", "options": {"width": width}},
        }
        train(RunSpec.from_dict(spec), folder / str(width))
    return folder


def test_what_comes_out_is_what_went_in_to_six_digits(store: Path, tmp_path: Path) -> None:
    assert pack(store, tmp_path / "pool.tar.xz") == 2
    before, after = read_table(store), unpack(tmp_path / "pool.tar.xz", tmp_path / "out")
    assert before.frame["run"].to_list() == after.frame["run"].to_list()
    columns = set(before.frame.columns) - {"run", "flags", "seconds"}
    for name in columns:
        one, other = before.frame[name].to_numpy(), after.frame[name].to_numpy()
        np.testing.assert_allclose(other.astype(float), one.astype(float), rtol=1e-5)
    for run in before.paths:
        for read in ("predictions", "given_labels", "neighbor_votes"):
            one, other = getattr(before, read)(run), getattr(after, read)(run)
            assert one is not None
            np.testing.assert_array_equal(one, other)
    assert select(before).pick.step == select(after).pick.step


def test_the_same_runs_give_the_same_bytes(store: Path, tmp_path: Path) -> None:
    pack(store, tmp_path / "one.tar.xz")
    pack(store, tmp_path / "two.tar.xz")
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "two.tar.xz").read_bytes()


def test_nothing_packed_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected a packed pool"):
        unpack(tmp_path / "none.tar.xz", tmp_path)
