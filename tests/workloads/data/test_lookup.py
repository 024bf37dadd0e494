from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits as original

from rote.errors import InputError
from rote.workloads.data import check_file, list_datasets, load, lookup
from rote.workloads.data.lookup import load_digits
from rote.workloads.spec import NamedData, NpzData
from tests.workloads.small_runs import write_npz

RNG = np.random.default_rng(0)
COLOR = RNG.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
Y = np.arange(20) % 10
WORSE = np.roll(Y, 1)


@pytest.fixture(autouse=True)
def _no_data_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTE_DATA", raising=False)
    monkeypatch.setenv("ROTE_CACHE", str(tmp_path / "cache"))


def write_cifar(folder: Path, name: str = "cifar10.npz", **more: np.ndarray) -> None:
    write_npz(folder / name, x_train=COLOR, y_train=Y, x_test=COLOR[:5], y_test=Y[:5], **more)


@pytest.mark.parametrize("name", ["cifar10.npz", "cifar10_20k_5k.npz"])
def test_a_set_is_found_in_the_data_folder(tmp_path: Path, name: str) -> None:
    write_cifar(tmp_path, name)
    found = load(NamedData(name="cifar10"), tmp_path)
    assert (found.name, found.source) == ("cifar10", str(tmp_path / name))
    assert found.truth is found.y_train


def test_the_folder_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar(tmp_path)
    monkeypatch.setenv("ROTE_DATA", str(tmp_path))
    assert load(NamedData(name="cifar10")).source == str(tmp_path / "cifar10.npz")


def test_a_missing_set_says_what_to_get_and_where_to_put_it(tmp_path: Path) -> None:
    expected = rf"`data.name` is 'svhn'.* Put svhn\.npz into {tmp_path}\. How to get it: http"
    with pytest.raises(InputError, match=expected):
        load(NamedData(name="svhn", source="local"), tmp_path)
    with pytest.raises(InputError, match=r"into the folder named by ROTE_DATA or --data-dir\."):
        load(NamedData(name="clothing1m"))


def test_a_file_of_another_data_set_is_refused(tmp_path: Path) -> None:
    write_cifar(tmp_path, "mnist.npz")
    with pytest.raises(InputError, match=r"to hold mnist: images of shape \(28, 28, 1\) in 10 cla"):
        load(NamedData(name="mnist"), tmp_path)


def test_labels_of_unknown_quality_are_no_truth(tmp_path: Path) -> None:
    images = np.zeros((10, 64, 64, 3), np.uint8)
    write_npz(tmp_path / "animal10n.npz", x_train=images, y_train=Y[:10])
    assert load(NamedData(name="animal10n"), tmp_path).truth is None


def test_human_labels_beside_the_images(tmp_path: Path) -> None:
    write_cifar(tmp_path, "cifar10_20k_5k.npz", y_worse=WORSE)
    found = load(NamedData(name="cifar10n", labels="worse"), tmp_path)
    np.testing.assert_array_equal(found.y_train, WORSE)
    np.testing.assert_array_equal(found.truth, Y)


def test_human_labels_in_a_table_of_their_own(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    write_npz(tmp_path / "cifar10n_labels.npz", y_clean=Y, y_worse=WORSE)
    found = load(NamedData(name="cifar10n", labels="worse", source="local"), tmp_path)
    np.testing.assert_array_equal(found.y_train, WORSE)
    np.testing.assert_array_equal(found.truth, Y)
    write_npz(tmp_path / "cifar10n_labels.npz", y_clean=WORSE, y_worse=WORSE)
    with pytest.raises(InputError, match=r"`y_clean` of .* differs from .*original order"):
        load(NamedData(name="cifar10n", labels="worse", source="local"), tmp_path)


def test_without_the_table_it_is_named(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    with pytest.raises(InputError, match=r"the images of cifar10, and cifar10n_labels\.npz"):
        load(NamedData(name="cifar10n", labels="worse"), tmp_path)


def test_own_files_are_found_here_or_in_the_data_folder(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "own.npz", x_train=COLOR, y_train=Y)
    assert load(NpzData(path=path)).name == "own.npz"
    assert load(NpzData(path="own.npz"), tmp_path).name == "own.npz"
    with pytest.raises(InputError, match=r"`data.path` .*not found at other\.npz"):
        load(NpzData(path="other.npz"), tmp_path)


def test_the_list_says_what_is_where(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    found = {entry.name: entry for entry in list_datasets(tmp_path)}
    assert list(found)[:2] == ["digits", "mnist"]
    assert len(found) == 10
    assert found["digits"].found == "scikit-learn"
    assert found["cifar10"].found == str(tmp_path / "cifar10.npz")
    assert found["svhn"].found is None
    assert "housenumbers" in found["svhn"].obtain
    (tmp_path / "cache").mkdir()
    write_npz(tmp_path / "cache" / "svhn.npz")
    assert {e.name: e.found for e in list_datasets()}["svhn"] == str(tmp_path / "cache/svhn.npz")


def test_a_good_file_is_summed_up(tmp_path: Path) -> None:
    write_cifar(tmp_path, y_worse=np.where(np.arange(20) < 5, (Y + 1) % 10, Y))
    found = check_file(tmp_path / "cifar10.npz")
    assert found.problems == ()
    assert found.contents["x_train"] == "uint8 (20, 32, 32, 3)"
    assert found.summary == {
        "inputs": "images",
        "labels": "y_train",
        "train": 20,
        "test": 5,
        "classes": 10,
        "shape": "32 × 32 × 3",
        "samples of a class": "2 to 2",
        "caution": "fewer than 300 samples: the holdout, a tenth of them, is too small for strong "
        "evidence",
        "wrong labels": "not known which",
        "y_worse differs from y_train": 0.25,
    }


def test_a_bad_file_says_why(tmp_path: Path) -> None:
    write_npz(tmp_path / "bad.npz", x_train=COLOR, y_train=Y[:3])
    found = check_file(tmp_path / "bad.npz")
    assert found.contents["y_train"] == "int64 (3,)"
    assert found.problems == ("Expected `y_train` to have one label per sample (20), got 3.",)
    whole = (tmp_path / "bad.npz").read_bytes()
    (tmp_path / "truncated.npz").write_bytes(whole[:200] + b"x" * 50 + whole[250:])
    assert "is damaged: Bad CRC" in check_file(tmp_path / "truncated.npz").problems[0]
    assert "File not found" in check_file(tmp_path / "none.npz").problems[0]


def test_every_digit_is_used_once_and_every_fifth_of_a_class_for_testing() -> None:
    found = load_digits()
    assert found.x_test is not None
    assert found.y_test is not None
    assert (found.x_train.shape, found.x_test.shape) == ((1442, 8, 8, 1), (355, 8, 8, 1))
    everything = np.concatenate([found.x_train, found.x_test]).reshape(-1, 64)
    assert sorted(map(bytes, everything)) == sorted(map(bytes, original().data.astype(np.uint8)))
    for digit in range(10):
        tested, total = (found.y_test == digit).sum(), (original().target == digit).sum()
        assert tested == total // 5


def test_digits_are_those_of_the_package_wherever_it_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = load_digits()
    monkeypatch.setattr(lookup, "find_spec", lambda name: None)
    imported = load_digits()
    assert np.array_equal(read.x_train, imported.x_train)
    assert np.array_equal(read.y_train, imported.y_train)
    assert read.x_train.dtype == imported.x_train.dtype == np.uint8


def test_the_labels_are_the_truth() -> None:
    found = load_digits()
    assert found.truth is found.y_train
    assert (found.num_classes, found.inputs) == (10, "images")
