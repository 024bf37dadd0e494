"""`train` records the votes of neighbors by itself, once for all runs on the same data."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rote.labels import neighbor_votes
from rote.store import NEIGHBORS_FILE, read_table
from rote.workloads import loop
from rote.workloads.data.splits import prepare
from rote.workloads.loop import train
from tests.workloads.small_runs import numbers, small_spec, write_npz


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_known", {})


def test_a_run_records_nearest_neighbor_votes_on_its_holdout(tmp_path: Path) -> None:
    spec = small_spec(epochs=1)
    train(spec, tmp_path / "a")
    splits = prepare(spec)
    images = splits.train.batch(slice(None)).flatten(1).double()
    # 64 pixels are more than forty components: the twin reduces them, too.
    centered = images - images.mean(0)
    axes = torch.linalg.svd(centered, full_matrices=False)[2][:40].T
    holdout = (splits.holdout.flatten(1).double() - images.mean(0)) @ axes
    nearest = torch.cdist(holdout, centered @ axes).argsort(1)[:, :10]
    expected = torch.nn.functional.one_hot(splits.labels[nearest], 10).double().mean(1)
    table = read_table(tmp_path)
    np.testing.assert_allclose(table.read_neighbor_votes("a"), expected, atol=1e-6)
    assert (table.read_given_labels("a") == splits.holdout_labels.numpy()).all()


def test_runs_on_the_same_data_share_the_work_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*arguments: object, **options: object) -> np.ndarray:
        made.append(arguments)
        return neighbor_votes(*arguments, **options)

    monkeypatch.setattr(loop, "neighbor_votes", counted)
    for seed in range(3):
        train(small_spec(epochs=1, seed=seed), tmp_path / str(seed))
    assert len(made) == 1
    other = {"name": "digits", "train_size": 60, "test_size": 20, "seed": 1}
    train(small_spec(epochs=1, data=other), tmp_path / "other")
    assert len(made) == 2
    table = read_table(tmp_path)
    votes = {run: table.read_neighbor_votes(run).tobytes() for run in table.paths}
    assert votes["0"] == votes["1"] == votes["2"] != votes["other"]
    assert len(loop._known) == 2


def test_votes_can_be_turned_off_without_side_effects(tmp_path: Path) -> None:
    probe = {"holdout_size": 12, "batch": 8}
    on, off = (small_spec(probe=probe | {"neighbors": flag}) for flag in (True, False))
    assert on.identity == off.identity
    runs = [train(on, tmp_path / "on"), train(off, tmp_path / "off"), train(on)]
    assert [(tmp_path / n / NEIGHBORS_FILE).exists() for n in ("on", "off")] == [True, False]
    first, *others = ([numbers(run.readings), _weights(run.model)] for run in runs)
    assert all(entry == first for entry in others)


def _weights(model: torch.nn.Module | None) -> list[list[float]]:
    assert model is not None
    return [parameter.tolist() for parameter in model.parameters()]


def test_texts_are_compared_by_their_weighted_words(tmp_path: Path) -> None:
    words = ["ball goal", "tax vote"]
    texts = np.array([f"{words[n % 2]} {words[n % 2]} w{n % 7}" for n in range(60)])
    path = write_npz(tmp_path / "texts.npz", text_train=texts, y_train=np.arange(60) % 2)
    spec = small_spec(epochs=1, data={"name": "npz", "path": path}, noise="none")
    train(spec, tmp_path / "run")
    table = read_table(tmp_path / "run")
    votes = table.read_neighbor_votes("run")
    assert (votes.argmax(1) == table.read_given_labels("run")).all()
    assert (votes.max(1) == 1).all()


@pytest.mark.parametrize("holdout", ["train", "ids"])
def test_no_votes_without_given_labels_or_for_token_ids(tmp_path: Path, holdout: str) -> None:
    rows = np.random.default_rng(0).integers(0, 9, (40, 3))
    path = write_npz(tmp_path / "a.npz", x_train=rows, y_train=np.arange(40) % 3)
    kind = "tokens" if holdout == "ids" else "features"
    probe = {"batch": 8} if holdout == "ids" else {"holdout": "train", "batch": 8}
    spec = small_spec(data={"name": "npz", "path": path, "inputs": kind}, noise="none", probe=probe)
    assert loop.compute_holdout_votes(prepare(spec)) is None


def test_an_interrupted_run_keeps_its_votes_or_recomputes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, made = small_spec(), []
    whole = train(spec, tmp_path / "whole")

    def counted(*arguments: object, **options: object) -> np.ndarray:
        made.append(arguments)
        return neighbor_votes(*arguments, **options)

    def cut(reading: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "neighbor_votes", counted)
    for name, is_lost in {"kept": False, "lost": True}.items():
        with pytest.raises(KeyboardInterrupt):
            train(spec, tmp_path / name, progress=cut)
        if is_lost:  # as after a power cut between run.json and the votes
            (tmp_path / name / NEIGHBORS_FILE).unlink()
        loop._known.clear()
        made.clear()
        assert numbers(train(spec, tmp_path / name).readings) == numbers(whole.readings)
        assert len(made) == is_lost
    table = read_table(tmp_path)
    votes = {run: table.read_neighbor_votes(run).tobytes() for run in table.paths}
    assert votes["kept"] == votes["lost"] == votes["whole"]
