from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rote.errors import InputError
from rote.labels.noise import add_noise
from rote.workloads.data.lookup import load_digits
from rote.workloads.data.splits import Splits, prepare
from rote.workloads.randomness import make_numpy_generator
from rote.workloads.spec import FieldError, RunSpec
from tests.workloads.small_runs import write_npz

NOISE = {"model": "symmetric-inclusive", "rate": 0.5}


def split(data_dir: Path | None = None, **tables: Any) -> Splits:
    return prepare(RunSpec.from_dict({"noise": NOISE} | tables), data_dir=data_dir)


def test_a_tenth_is_set_aside_as_the_holdout() -> None:
    found = split()
    assert (len(found.train), len(found.holdout)) == (1298, 144)
    assert found.holdout_labels is not None
    assert len(found.holdout_labels) == 144
    together = sorted([*found.record["train"], *found.record["holdout"]])
    assert together == list(range(1442))


def test_the_holdout_has_at_most_512_samples(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(6000, 2))
    path = write_npz(tmp_path / "a.npz", x_train=rows, y_train=np.arange(6000) % 2)
    assert len(split(data={"name": "npz", "path": path}).holdout) == 512


def test_labels_belong_to_their_samples() -> None:
    found = split(channels_last=False)
    digits = load_digits()
    noisy = add_noise(
        digits.y_train,
        model="symmetric-inclusive",
        rate=0.5,
        num_classes=10,
        generator=make_numpy_generator(0, "noise"),
    )
    train, holdout = found.record["train"], found.record["holdout"]
    np.testing.assert_array_equal(found.labels, noisy.labels[train])
    np.testing.assert_array_equal(found.wrong, noisy.mask[train])
    np.testing.assert_array_equal(found.holdout_labels, noisy.labels[holdout])
    assert found.description["noise"]["realized_rate"] == noisy.realized_rate
    pixels = digits.x_train[train].astype(np.float64)
    normal = (pixels - digits.x_train.mean()) / digits.x_train.std()
    np.testing.assert_allclose(found.train.batch(slice(None))[:, 0], normal[..., 0], atol=1e-5)


def record(**tables: Any) -> list[Any]:
    found = split(**tables)
    return [found.record[name].tolist() for name in ("train", "holdout", "labels")]


def test_every_run_of_a_sweep_sees_the_same_data() -> None:
    assert record(seed=0) == record(seed=1, epochs=7, architecture="mlp", batch=3)
    assert record(seed=0) != record(data={"name": "digits", "seed": 1})


def test_s_tilde_may_come_from_the_training_set() -> None:
    found = split(probe={"holdout": "train", "batch": 32})
    assert (len(found.train), len(found.holdout), found.holdout_labels) == (1442, 32, None)
    train = found.train.batch(slice(None)).flatten(1)
    assert all((train == sample).all(1).any() for sample in found.holdout.flatten(1))


def test_the_holdout_may_be_unlabeled(tmp_path: Path) -> None:
    write_npz(tmp_path / "holdout.npz", x=np.zeros((7, 8, 8), np.uint8))
    found = split(tmp_path, probe={"holdout": "holdout.npz"})
    assert (len(found.train), found.holdout.shape) == (1442, (7, 1, 8, 8))
    assert found.holdout_labels is None
    assert found.record["holdout"].size == 0
    with pytest.raises(FieldError, match=r"`probe.holdout` .*not found at no\.npz"):
        split(probe={"holdout": "no.npz"})


def test_subsets_are_drawn_at_random() -> None:
    found = split(data={"name": "digits", "train_size": 100, "test_size": 30})
    assert found.test is not None
    assert (len(found.train), len(found.holdout), len(found.test)) == (90, 10, 30)
    rows = found.record["rows"].tolist()
    assert rows == sorted(set(rows)) != list(range(100))


def test_sizes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=r"`data.train_size` to be at most 1442, got 2000\."):
        split(data={"name": "digits", "train_size": 2000})
    with pytest.raises(
        FieldError, match=r"`probe.holdout_size` to leave at least 2 of 1442 samples"
    ):
        split(probe={"holdout_size": 1441})
    path = write_npz(tmp_path / "a.npz", x_train=np.zeros((9, 2)), y_train=np.zeros(9, int))
    with pytest.raises(FieldError, match=r"`data.test_size` .* no test set"):
        split(data={"name": "npz", "path": path, "test_size": 3})
    with pytest.raises(FieldError, match=r"`data.crop` .* not to features"):
        split(data={"name": "npz", "path": path, "crop": 2})


def test_unknown_truth_and_test_set_are_absent(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", x_train=np.zeros((40, 2)), y_train=np.arange(40) % 2)
    found = split(data={"name": "npz", "path": path}, noise="none")
    assert (found.wrong, found.test, found.test_labels) == (None, None, None)
    assert found.description["noise"] == {"model": None, "realized_rate": None}
    assert "wrong" not in found.record


def test_without_noise_no_label_is_wrong() -> None:
    found = split(noise="none")
    assert found.wrong is not None
    assert not found.wrong.any()
    assert found.description["noise"]["model"] == "none"


def test_noisy_labels_of_a_file_are_noise_of_unknown_origin(tmp_path: Path) -> None:
    truth = np.arange(40) % 4
    given = np.where(np.arange(40) < 10, (truth + 1) % 4, truth)
    path = write_npz(
        tmp_path / "a.npz", x_train=np.zeros((40, 2)), y_train=truth, y_train_noisy=given
    )
    found = split(data={"name": "npz", "path": path, "labels": "noisy"}, noise="none")
    assert found.wrong is not None
    np.testing.assert_array_equal(found.wrong, found.record["train"] < 10)
    assert found.description["noise"]["model"] == "as given"
    assert found.description["noise"]["realized_rate"] == 0.25


@pytest.mark.parametrize(
    "noise",
    [
        {"model": "symmetric-exclusive", "rate": 0.3},
        {"model": "pair", "rate": 0.3},
        {"model": "trid", "rate": 0.3},
        {"model": "asymmetric", "rate": 0.5, "class_map": "mnist", "sampling": "per-class"},
        {"model": "asymmetric", "rate": 0.5, "class_map": {"1": 2}},
        {"model": "instance", "rate": 0.3},
        {"model": "instance", "rate": 0.3, "input_scale": 0.1},
    ],
)
def test_every_noise_model_applies(noise: dict[str, Any]) -> None:
    found = split(noise=noise)
    assert 0 < found.description["noise"]["realized_rate"] < 0.5
    assert found.description["noise"]["model"] == noise["model"]


def test_noise_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=r"`noise.class_map` is required for digits"):
        split(noise={"model": "asymmetric", "rate": 0.5})
    with pytest.raises(FieldError, match=r"`noise` does not fit digits: Expected `num_classes` to"):
        split(noise={"model": "asymmetric", "rate": 0.5, "class_map": "cifar100"})


def test_the_map_published_for_a_set_is_the_default(tmp_path: Path) -> None:
    images = np.zeros((100, 28, 28), np.uint8)
    write_npz(tmp_path / "mnist.npz", x_train=images, y_train=np.arange(100) % 10)
    found = split(tmp_path, data={"name": "mnist"}, noise={"model": "asymmetric", "rate": 0.9})
    assert found.description["noise"]["class_map"] == "mnist"


def test_shapes_for_the_architecture(tmp_path: Path) -> None:
    images = split()
    assert (images.in_channels, images.image_size, images.is_images) == (1, 8, True)
    path = write_npz(tmp_path / "a.npz", x_train=np.zeros((40, 5)), y_train=np.arange(40) % 2)
    rows = split(data={"name": "npz", "path": path})
    assert (rows.in_channels, rows.image_size, rows.is_images) == (5, 1, False)


def test_memory_mapped_samples_are_never_read_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "big"
    folder.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (50, 8, 8, 3), dtype=np.uint8)
    np.save(folder / "x_train.npy", images)
    np.save(folder / "y_train.npy", np.arange(50) % 3)
    tables = {"data": {"name": "npz", "path": str(folder)}}
    in_memory = split(**tables)
    from rote.workloads.data import arrays

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays.ArrayFile.__init__, "__kwdefaults__", {"in_memory_bytes": 1000})
        mapped = split(**tables)
    assert mapped.train._mapped is not None
    torch.testing.assert_close(mapped.holdout, in_memory.holdout)
    chosen = torch.tensor([5, 3])
    torch.testing.assert_close(mapped.train.batch(chosen), in_memory.train.batch(chosen))


def test_a_missing_set_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"`data.name` is 'cifar100', which was not found"):
        split(tmp_path, data={"name": "cifar100", "source": "local"})
