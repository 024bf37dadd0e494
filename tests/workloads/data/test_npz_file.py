import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.errors import InputError
from rote.workloads.data.arrays import ArrayFile
from rote.workloads.data.dataset import Dataset
from rote.workloads.data.npz_file import FileLayout, count_words, read_npz, read_unlabeled
from rote.workloads.spec import FieldError
from tests.workloads.small_runs import write_npz

GRAY = np.arange(5 * 8 * 8, dtype=np.uint8).reshape(5, 8, 8)
Y = np.array([0, 1, 2, 1, 0])
WORSE = np.array([0, 2, 2, 1, 1])


def read(folder: Path, how: FileLayout | None = None, **arrays: Any) -> Dataset:
    return read_npz(ArrayFile(Path(write_npz(folder / "a.npz", **arrays))), how or FileLayout("a"))


def test_gray_images_get_a_channel(tmp_path: Path) -> None:
    found = read(tmp_path, x_train=GRAY, y_train=Y, x_test=GRAY[:2], y_test=Y[:2])
    assert (found.inputs, found.sample_shape, found.num_classes) == ("images", (8, 8, 1), 3)
    assert found.x_train.dtype == np.uint8
    np.testing.assert_array_equal(found.x_train[..., 0], GRAY)
    assert found.x_test is not None
    assert len(found.x_test) == 2
    assert found.truth is None


def test_missing_test_arrays_are_none(tmp_path: Path) -> None:
    found = read(tmp_path, x_train=GRAY, y_train=Y)
    assert found.x_test is None
    assert found.y_test is None


@pytest.mark.parametrize("name", ["y_train_worse", "y_worse"])
def test_further_labels_make_y_train_the_truth(tmp_path: Path, name: str) -> None:
    found = read(
        tmp_path, FileLayout("a", labels="worse"), x_train=GRAY, y_train=Y, **{name: WORSE}
    )
    np.testing.assert_array_equal(found.y_train, WORSE)
    np.testing.assert_array_equal(found.truth, Y)


def test_clean_labels_beside_the_given_ones_are_the_truth(tmp_path: Path) -> None:
    found = read(tmp_path, x_train=GRAY, y_train=WORSE, y_train_clean=Y)
    np.testing.assert_array_equal(found.y_train, WORSE)
    np.testing.assert_array_equal(found.truth, Y)


def test_samples_without_a_label_are_left_out(tmp_path: Path) -> None:
    gaps = np.array([-1, 1, -1, 0, 0])
    found = read(tmp_path, FileLayout("a", labels="weak"), x_train=GRAY, y_train=Y, y_weak=gaps)
    np.testing.assert_array_equal(found.y_train, [1, 0, 0])
    np.testing.assert_array_equal(found.truth, [1, 1, 0])
    np.testing.assert_array_equal(found.x_train[..., 0], GRAY[[1, 3, 4]])


def test_class_names_count_classes_that_do_not_occur(tmp_path: Path) -> None:
    names = np.array(["a", "b", "c", "d"])
    assert read(tmp_path, x_train=GRAY, y_train=Y, class_names=names).num_classes == 4


def test_rows_of_numbers_are_features(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 7))
    found = read(tmp_path, x_train=rows, y_train=Y)
    assert (found.inputs, found.sample_shape) == ("features", (7,))
    assert found.x_train.dtype == np.float32


def test_images_can_be_taken_as_features(tmp_path: Path) -> None:
    found = read(tmp_path, FileLayout("a", inputs="features"), x_train=GRAY, y_train=Y)
    assert found.sample_shape == (64,)


def test_token_ids_stay_as_they_are(tmp_path: Path) -> None:
    ids = np.arange(10).reshape(5, 2)
    found = read(tmp_path, FileLayout("a", inputs="tokens"), x_train=ids, y_train=Y)
    np.testing.assert_array_equal(found.x_train, ids)


def test_texts_are_counted(tmp_path: Path) -> None:
    texts = np.array(["red red dog", "blue cat", "red cat", "dog", "blue"])
    found = read(tmp_path, text_train=texts, y_train=Y, text_test=texts[:1], y_test=Y[:1])
    assert (found.inputs, found.sample_shape) == ("bag-of-words", (4,))
    assert found.x_test is not None
    np.testing.assert_array_equal(found.x_test, found.x_train[:1])


MISTAKES: list[tuple[FileLayout, dict[str, Any], str]] = [
    (FileLayout("a"), {"y_train": Y}, r"no array `x_train`.* y_train"),
    (FileLayout("a"), {"x_train": GRAY}, r"no array `y_train`.* x_train"),
    (FileLayout("a"), {"x_train": GRAY, "y_train": Y[:4]}, r"one label per sample \(5\), got 4"),
    (
        FileLayout("a"),
        {"x_train": GRAY, "y_train": Y * 0.5},
        r"`y_train` to be a vector of integers",
    ),
    (FileLayout("a"), {"x_train": GRAY, "y_train": Y - 2}, r"to be classes from 0 on, got -2"),
    (
        FileLayout("a"),
        {"x_train": GRAY[:, :4], "y_train": Y},
        r"`x_train` to be square images .*got",
    ),
    (
        FileLayout("a"),
        {"x_train": np.zeros((5, 3, 8, 8)), "y_train": Y},
        r"square images .* move the channels to the end",
    ),
    (FileLayout("a"), {"x_train": GRAY, "y_train": Y, "x_test": GRAY}, r"no array `y_test`"),
    (
        FileLayout("a"),
        {"x_train": np.full((5, 2), np.nan), "y_train": Y},
        r"finite numbers, got NaN",
    ),
    (
        FileLayout("a", inputs="features"),
        {"x_train": np.array(["a"] * 5), "y_train": Y},
        r"`x_train` to hold numbers, got <U1",
    ),
    (
        FileLayout("a", inputs="tokens"),
        {"x_train": np.zeros((5, 2)), "y_train": Y},
        r"`x_train` to be token ids \(samples, length\), got float64",
    ),
]


@pytest.mark.parametrize(("how", "arrays", "complaint"), MISTAKES)
def test_arrays_that_do_not_fit_are_refused(
    tmp_path: Path, how: FileLayout, arrays: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        read(tmp_path, how, **arrays)


def test_the_wrong_field_is_named(tmp_path: Path) -> None:
    integers = np.zeros((5, 2), dtype=int)
    with pytest.raises(FieldError, match=r"`data.inputs` is required for int64 .* \(5, 2"):
        read(tmp_path, x_train=integers, y_train=Y)
    with pytest.raises(FieldError, match=r"`data.labels` names no labels in .*only y_train\."):
        read(tmp_path, FileLayout("a", labels="worse"), x_train=GRAY, y_train=Y)
    with pytest.raises(FieldError, match=r"`data.vocabulary` .* not to images"):
        read(tmp_path, FileLayout("a", vocabulary=9), x_train=GRAY, y_train=Y)


def test_a_separate_holdout_must_match_the_training_set(tmp_path: Path) -> None:
    dataset = read(tmp_path, x_train=GRAY, y_train=Y)
    good = write_npz(tmp_path / "holdout.npz", x=GRAY)
    np.testing.assert_array_equal(read_unlabeled(Path(good), dataset), GRAY[..., None])
    bad = write_npz(tmp_path / "bad.npz", x_train=GRAY[:, :4, :4])
    with pytest.raises(InputError, match=r"samples of shape \(8, 8, 1\), as in training, got \(4"):
        read_unlabeled(Path(bad), dataset)
    words = read(tmp_path, text_train=np.array(["ab cd"] * 5), y_train=Y)
    with pytest.raises(FieldError, match=r"`probe.holdout` is a path.* Use 'auto' or 'train'"):
        read_unlabeled(Path(good), words)


def by_hand(rows: list[list[int]], words: int) -> np.ndarray:
    """tf-idf with logarithmic counts, sample by sample."""
    counts = np.array([[row.count(word) for word in range(words)] for row in rows])
    frequency = (counts > 0).sum(0)
    weights = np.zeros(counts.shape)
    for i, j in zip(*counts.nonzero(), strict=True):
        rarity = math.log((1 + len(rows)) / (1 + frequency[j])) + 1
        weights[i, j] = (1 + math.log(counts[i, j])) * rarity
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    return weights / np.where(lengths > 0, lengths, 1)


ROWS = [[0, 0, 1], [2, 1], [0, 2, 2, 2], [1], []]


def padded(rows: list[list[int]]) -> np.ndarray:
    return np.array([row + [-1] * (4 - len(row)) for row in rows])


def test_token_ids_are_weighed_as_by_hand() -> None:
    train, test = count_words(padded(ROWS), padded(ROWS[:2]), 10)
    np.testing.assert_allclose(train, by_hand(ROWS, 3), atol=1e-6)
    assert test is not None
    np.testing.assert_array_equal(test, train[:2])
    assert train.dtype == np.float32


def test_texts_are_weighed_like_their_ids() -> None:
    words = ["apple", "bread", "cheese"]
    texts = np.array([" ".join(words[word] for word in row) for row in ROWS])
    train, test = count_words(texts, None, 10)
    np.testing.assert_allclose(train, by_hand(ROWS, 3), atol=1e-6)
    assert test is None


def test_only_the_most_frequent_words_are_counted() -> None:
    assert count_words(padded(ROWS), None, 2)[0].shape == (5, 2)


def test_arrays_without_words_are_refused() -> None:
    with pytest.raises(InputError, match=r"texts, or integer token ids .*, got float64 of shape"):
        count_words(np.zeros((3, 2)), None, 5)
    with pytest.raises(InputError, match=r"contain no words"):
        count_words(np.array(["", "!"]), None, 5)
