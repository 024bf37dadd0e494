"""What is foreseen of a sweep, against what comes."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError, StoreError
from rote.store import read_run
from rote.sweeps import LocalExecutor, SearchSpace, Sweep, cost_estimate
from rote.sweeps.cost_estimate import SweepCost, estimate_cost
from rote.workloads import train
from tests.workloads.small_runs import small_spec, write_npz

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sweeps")]

FILES = ("journal.jsonl", "predictions.bin", "labels.npz", "neighbor_votes.npy", "checkpoints/*")


@pytest.mark.parametrize(
    "checkpoints", ["all", "last", "none", {"keep": "best", "k": 2, "metric": "susceptibility"}]
)
def test_disk_estimate_matches_the_files_written(checkpoints: object, tmp_path: Path) -> None:
    spec = small_spec(epochs=6, checkpoints=checkpoints)
    guess = estimate_cost([spec], tmp_path)
    assert list(tmp_path.iterdir()) == []
    train(spec, tmp_path / "run")
    files = [file for name in FILES for file in (tmp_path / "run").glob(name)]
    assert guess.bytes == pytest.approx(sum(file.stat().st_size for file in files), rel=0.05)


def test_networks_are_counted_and_one_is_always_measured(tmp_path: Path) -> None:
    specs = [small_spec(seed=seed, architecture=name) for seed in (0, 1) for name in ("mlp", "cnn")]
    guess = estimate_cost(specs, tmp_path, budget=0.0)
    assert (guess.measured, guess.kinds, guess.is_scaled) == (1, 2, False)
    whole = estimate_cost(specs, tmp_path, budget=1000.0)
    assert whole.measured == 2
    assert estimate_cost([], tmp_path).seconds == 0


def test_runs_whose_epochs_take_differently_long_are_measured_apart(tmp_path: Path) -> None:
    specs = [small_spec(seed=seed, batch=batch) for seed in (0, 1) for batch in (8, 32)]
    guess = estimate_cost([*specs, small_spec(optimizer="adam"), small_spec()], tmp_path)
    assert guess.kinds == 4


def test_no_sweep_is_shorter_than_its_longest_run() -> None:
    guess = SweepCost(seconds=60.0, longest=25.0, bytes=0, measured=1, kinds=1, is_scaled=False)
    assert [guess.estimate_seconds(workers) for workers in (1, 2, 3, 100)] == [
        60.0,
        30.0,
        25.0,
        25.0,
    ]


def test_runs_that_cannot_be_measured_are_named_and_count_as_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Measured once: a journal has times in it, whose digits vary.
    monkeypatch.setattr(cost_estimate, "_measure", cache(cost_estimate._measure))
    good = small_spec(name="good")
    missing = small_spec(name="bad", data={"name": "npz", "path": str(tmp_path / "none.npz")})
    guess = estimate_cost([missing, good], tmp_path)
    assert (guess.measured, guess.kinds, list(guess.refused)) == (1, 2, ["bad"])
    assert "none.npz" in guess.refused["bad"]
    assert guess.bytes == 2 * estimate_cost([good], tmp_path).bytes
    with pytest.raises(InputError, match=r"none\.npz"):
        estimate_cost([missing], tmp_path)


def test_no_runs_and_no_store_are_refused_beforehand(tmp_path: Path) -> None:
    everything = {"grid": {"seed": [0, 1]}, "exclude": {"all": {"seed": [0, 1]}}}
    with pytest.raises(InputError, match="The sweep has no runs"):
        Sweep(SearchSpace.from_dict(everything), tmp_path).survey()
    file = tmp_path / "file"
    file.touch()
    for store in (file, file / "store"):
        with pytest.raises(StoreError) as refusal:
            Sweep([small_spec()], store).check_store()
        with pytest.raises(StoreError) as real:
            Sweep([small_spec()], store).run(LocalExecutor(1))
        assert str(refusal.value) == str(real.value)
    Sweep([small_spec()], tmp_path / "new" / "store").check_store()
    assert list(tmp_path.iterdir()) == [file]


def test_many_samples_are_cut_down(tmp_path: Path) -> None:
    size = 3 * SweepCost.samples
    generator = np.random.default_rng(0)
    file = write_npz(
        tmp_path / "large.npz",
        x_train=generator.random((size, 4), np.float32),
        y_train=np.arange(size) % 3,
        x_test=generator.random((30, 4), np.float32),
        y_test=np.arange(30) % 3,
    )
    spec = small_spec(data={"name": "npz", "path": file}, noise="none", probe={})
    assert estimate_cost([spec], tmp_path).is_scaled


def test_interrupted_runs_have_less_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = list(
        SearchSpace.from_dict({"base": small_spec(epochs=40).to_dict(), "grid": {"seed": [0]}})
    )

    def cut(reading: object) -> None:
        if getattr(reading, "step", 0) == 38:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(specs[0], tmp_path / specs[0].identity, progress=cut)
    assert Sweep(specs, tmp_path).survey()["interrupted"] == 1
    # A fixed price, because no two measurements of time agree.
    cost = cost_estimate._Cost(setup=3.0, epoch=2.0, checkpoint=5, reading=7, labels=11,
                             is_scaled=False)  # fmt: skip
    monkeypatch.setattr(cost_estimate, "_measure", lambda *_: cost)
    interrupted, new = estimate_cost(specs, tmp_path), estimate_cost(specs, tmp_path / "elsewhere")
    assert interrupted.bytes == new.bytes
    left = specs[0].epochs - read_run(tmp_path / specs[0].identity).readings[-1].step
    assert (interrupted.seconds, new.seconds) == (3.0 + left * 2.0, 3.0 + 40 * 2.0)
    assert left == 2
    assert new.longest == new.seconds
