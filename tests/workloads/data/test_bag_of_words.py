import math

import numpy as np
import pytest

from rote.errors import InputError
from rote.workloads.data.bag_of_words import count_words


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


def test_what_holds_no_words_is_refused() -> None:
    with pytest.raises(InputError, match=r"texts, or integer token ids .*, got float64 of shape"):
        count_words(np.zeros((3, 2)), None, 5)
    with pytest.raises(InputError, match=r"Expected words in the texts, got none"):
        count_words(np.array(["", "!"]), None, 5)
