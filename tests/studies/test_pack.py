"""A packed pool says what the runs said."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError
from rote.selection import select
from rote.store import read_table
from rote.studies import Pool, record_pools
from rote.studies.pack import pack, unpack
from rote.studies.run_pools import has_enough, is_complete, is_over, restore_pool
from rote.sweeps import SearchSpace, Sweep, get_run_path
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


def test_packed_runs_keep_six_digits(store: Path, tmp_path: Path) -> None:
    assert pack(store, tmp_path / "pool.tar.xz") == 2
    before, after = read_table(store), unpack(tmp_path / "pool.tar.xz", tmp_path / "out")
    assert before.frame["run"].to_list() == after.frame["run"].to_list()
    columns = set(before.frame.columns) - {"run", "flags", "seconds"}
    for name in columns:
        one, other = before.frame[name].to_numpy(), after.frame[name].to_numpy()
        np.testing.assert_allclose(other.astype(float), one.astype(float), rtol=1e-5)
    for run in before.paths:
        for read in ("read_predictions", "read_given_labels", "read_neighbor_votes"):
            one, other = getattr(before, read)(run), getattr(after, read)(run)
            assert one is not None
            np.testing.assert_array_equal(one, other)
    assert select(before).pick.step == select(after).pick.step


def test_the_same_runs_give_the_same_bytes(store: Path, tmp_path: Path) -> None:
    pack(store, tmp_path / "one.tar.xz")
    pack(store, tmp_path / "two.tar.xz")
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "two.tar.xz").read_bytes()


def test_empty_pack_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Packed pool not found"):
        unpack(tmp_path / "none.tar.xz", tmp_path)


def one_pool(tmp_path: Path, widths: Sequence[int]) -> Pool:
    networks = {
        f"mlp-{width}": {"architecture": {"name": "mlp", "options": {"width": width}}}
        for width in widths
    }
    base = {"epochs": 2, "data": {"name": "digits", "train_size": 300}}
    noise = {"noise": {"model": "symmetric-inclusive", "rate": 0.5}}
    space = SearchSpace.from_dict({"base": base | noise, "lists": {"network": networks}})

    class Elsewhere(Pool):
        record = property(lambda self: tmp_path / f"{self.name}.tar.xz")  # type: ignore[assignment]

    return Elsewhere("made-0", "common", is_judged=True, space=space)


def test_another_machine_trains_only_what_is_not_packed(tmp_path: Path) -> None:
    part, whole = one_pool(tmp_path, [8]), one_pool(tmp_path, [8, 16])
    here, there = tmp_path / "here", tmp_path / "there"
    for spec in part.space:
        train(spec, get_run_path(here / part.name, spec))
    assert record_pools([whole], here) == [whole.record]
    assert not is_over(whole, here)
    with tempfile.TemporaryDirectory() as folder:
        packed_table = unpack(whole.record, Path(folder))
        assert not is_complete(whole, packed_table)
        assert not has_enough(whole, packed_table)
        assert has_enough(replace(whole, enough=1), packed_table)

    assert restore_pool(whole, there) == 1
    assert restore_pool(whole, there) == 0
    left = list(Sweep(whole.space, there / whole.name).list_unfinished())
    assert [spec.name for spec in left] == ["mlp-16"]
    packed = whole.record.read_bytes()
    record_pools([whole], there)
    assert whole.record.read_bytes() == packed

    train(left[0], get_run_path(there / whole.name, left[0]))
    record_pools([whole], there)
    assert is_over(whole, there)
    with tempfile.TemporaryDirectory() as folder:
        table = unpack(whole.record, Path(folder))
        assert is_complete(whole, table)
        assert set(table.paths) == {"mlp-8", "mlp-16"}


def test_a_packed_run_of_another_recipe_is_trained_again(tmp_path: Path) -> None:
    pool = one_pool(tmp_path, [8])
    for spec in pool.space:
        train(spec, get_run_path(tmp_path / "here" / pool.name, spec))
    record_pools([pool], tmp_path / "here")
    base = {**pool.space.base, "optimizer": {"name": "sgd", "lr": 0.3}}
    other = replace(pool, space=replace(pool.space, base=base))
    assert restore_pool(other, tmp_path / "there") == 0
