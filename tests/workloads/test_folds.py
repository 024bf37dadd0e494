"""With folds each sample is held out once, and what its run predicts for it is recorded."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from rote.errors import CorruptRunError, InputError
from rote.selection import rank_suspects
from rote.store import read_out_of_sample, read_predictions, read_run
from rote.workloads import load_model, prepare, train, train_folds
from rote.workloads.spec import FieldError, RunSpec
from tests.workloads.small_runs import read_npz, small_spec

SPEC = small_spec(epochs=3, probe={"batch": 8})


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folds") / "runs"
    train_folds(SPEC, folder, 4)
    return folder


def fold_spec(fold: int) -> RunSpec:
    return small_spec(epochs=3, probe={"batch": 8, "folds": 4, "fold": fold})


def test_every_sample_is_held_out_once(folds: Path) -> None:
    found = read_out_of_sample(sorted(folds.iterdir()))
    assert found is not None
    first = read_npz(folds / "fold-0" / "labels.npz")
    assert np.array_equal(found.samples, first["rows"])
    assert np.array_equal(found.labels, first["labels"])
    assert (found.runs == 1).all()
    assert found.probabilities.shape == (60, 10)
    assert np.allclose(found.probabilities.sum(1), 1, atol=1e-5)
    votes = read_npz(folds / "fold-2" / "out_of_sample.npz")
    assert np.allclose(found.votes[np.isin(found.samples, votes["samples"])].sum(1), 1)
    assert found.neighbors is not None
    places = np.searchsorted(found.samples, votes["samples"])
    assert np.array_equal(found.neighbors[places], np.load(folds / "fold-2" / "neighbor_votes.npy"))


def test_one_line_exports_to_cleanlab(folds: Path) -> None:
    found = read_out_of_sample(folds)  # the folder itself
    assert found is not None
    assert set(found.to_cleanlab()) == {"labels", "pred_probs"}
    filters = pytest.importorskip("cleanlab.filter", reason="needs cleanlab")
    issues = filters.find_label_issues(**found.to_cleanlab(), n_jobs=1)
    assert issues.shape == (60,)


def test_probabilities_are_those_of_the_checkpoints(folds: Path) -> None:
    spec = fold_spec(1)
    splits, run = prepare(spec), folds / "fold-1"
    each = []
    for step in (1, 2, 3):
        network = load_model(run / "checkpoints" / f"step-{step:05}.safetensors").network
        with torch.no_grad():
            each.append(network(splits.holdout).softmax(1).numpy())
    found = read_npz(run / "out_of_sample.npz")
    assert np.allclose(found["probabilities"], np.mean(each, axis=0), atol=1e-6)
    labels = splits.holdout_labels.numpy()  # type: ignore[union-attr]
    best = int(np.argmax([(one.argmax(1) == labels).mean() for one in each]))
    assert int(found["best_step"]) == best + 1
    assert np.allclose(found["best_probabilities"], each[best], atol=1e-6)
    predicted = read_predictions(read_run(run))
    assert predicted is not None
    assert np.array_equal(found["classes"], predicted[best])
    around = predicted[max(0, best - 2) : best + 3]
    assert np.allclose(found["votes"], np.eye(10)[around].mean(axis=0))


def test_an_interrupted_fold_ends_with_the_same_probabilities(folds: Path, tmp_path: Path) -> None:
    def stop(reading: object) -> None:
        if reading.step == 2:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(fold_spec(2), tmp_path / "run", progress=stop)
    train(fold_spec(2), tmp_path / "run")
    whole, resumed = folds / "fold-2", tmp_path / "run"
    ours, theirs = (read_npz(place / "out_of_sample.npz") for place in (whole, resumed))
    for name in ours:
        assert np.array_equal(ours[name], theirs[name]), name


def test_runs_without_folds_or_on_other_data_are_separated(folds: Path, tmp_path: Path) -> None:
    assert read_out_of_sample([tmp_path]) is None
    other = small_spec(epochs=1, data={"name": "digits", "train_size": 60, "seed": 1})
    train_folds(other, tmp_path / "other", 2)
    with pytest.raises(InputError, match="different labels"):
        read_out_of_sample([*folds.iterdir(), *(tmp_path / "other").iterdir()])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "out_of_sample.npz").write_bytes(b"no")
    with pytest.raises(CorruptRunError, match=r"out_of_sample\.npz is damaged"):
        read_out_of_sample([tmp_path / "run"])


def test_folds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FieldError, match=r"`probe.fold` to be below `folds` \(3\), got 3"):
        small_spec(probe={"folds": 3, "fold": 3})
    with pytest.raises(FieldError, match=r"`probe.folds` applies to holdout 'auto'"):
        small_spec(probe={"folds": 3, "holdout": "train"})
    with pytest.raises(FieldError, match=r"`probe.folds` to be at most half of the 60"):
        prepare(small_spec(probe={"folds": 40}))


def test_a_part_of_the_folds_ranks_nothing(folds: Path, tmp_path: Path) -> None:
    assert len(rank_suspects(folds)[0].samples) == 60
    shutil.copytree(folds, tmp_path / "cut")
    (tmp_path / "cut" / "fold-2" / "out_of_sample.npz").unlink()
    for part in (tmp_path / "cut", folds / "fold-1", tmp_path / "cut" / "fold-2"):
        with pytest.raises(InputError, match="of 4 folds have finished"):
            rank_suspects(part)
