"""Votes of neighbors, against a naive twin that sorts all distances sample by sample."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import sparse

import rote
from rote.errors import InputError
from rote.labels import neighbor_votes

SETS = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(12, 40), st.integers(1, 9), st.integers(1, 12)
)


def data(seed: int, samples: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    train, holdout = generator.normal(size=(samples, width)), generator.normal(size=(7, width))
    return train, generator.integers(0, 4, samples), holdout


def naive(train: np.ndarray, labels: np.ndarray, holdout: np.ndarray, k: int, classes: int) -> Any:
    """One holdout sample after another; whoever is as far as the k-th shares its place."""
    votes = []
    for sample in holdout:
        distances = [float(((sample - other) ** 2).sum()) for other in train]
        limit = sorted(distances)[k - 1]
        nearer = [y for d, y in zip(distances, labels, strict=True) if d < limit]
        level = [y for d, y in zip(distances, labels, strict=True) if d == limit]
        share = (k - len(nearer)) / len(level)
        votes.append([nearer.count(c) / k + share * level.count(c) / k for c in range(classes)])
    return np.array(votes)


def principal(train: np.ndarray, holdout: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    mean = train.mean(0)
    axes = np.linalg.svd(train - mean, full_matrices=False)[2][:size].T
    return (train - mean) @ axes, (holdout - mean) @ axes


@given(SETS)
@settings(deadline=None)
def test_counts_equal_brute_force(case: tuple[int, int, int, int]) -> None:
    seed, samples, width, k = case
    train, labels, holdout = data(seed, samples, width)
    votes = neighbor_votes(train, labels, holdout, k=k, num_classes=5)
    assert votes.dtype == np.float32
    np.testing.assert_allclose(votes, naive(train, labels, holdout, k, 5), atol=1e-6)


@given(SETS, st.sampled_from([1e-30, 0.25, 3.0, 1e30]))
@settings(deadline=None)
def test_rows_sum_to_one_and_neither_order_nor_unit_nor_place_matters(
    case: tuple[int, int, int, int], unit: float
) -> None:
    seed, samples, width, k = case
    train, labels, holdout = data(seed, samples, width)
    votes = neighbor_votes(train, labels, holdout, k=k, num_classes=4)
    np.testing.assert_allclose(votes.sum(1), 1, rtol=1e-6)
    order = np.random.default_rng(seed).permutation(samples)
    shuffled = neighbor_votes(train[order], labels[order], holdout, k=k, num_classes=4)
    np.testing.assert_allclose(shuffled, votes, atol=1e-6)
    other = neighbor_votes(unit * train, labels, unit * holdout, k=k, num_classes=4)
    np.testing.assert_allclose(other, votes, atol=1e-6)
    moved = neighbor_votes(train + 8, labels, holdout + 8, k=k, num_classes=4)
    np.testing.assert_allclose(moved, votes, atol=1e-6)


@pytest.mark.parametrize("width", [41, 60, 300])
def test_wide_samples_are_compared_in_forty_principal_components(width: int) -> None:
    generator = np.random.default_rng(width)
    # 45 directions that differ in size, so that which forty are kept is no matter of chance.
    factors = generator.normal(size=(500, 45)) * 2.0 ** -(np.arange(45) ** 0.5)
    mixing = np.linalg.qr(generator.normal(size=(width, 41)))[0].T
    samples = 5 + factors[:, :41] @ mixing
    labels = generator.integers(0, 3, 450)
    train, holdout = samples[:450], samples[450:]
    near, asked = principal(train, holdout, 40)
    expected = naive(near, labels, asked, 10, 3)
    np.testing.assert_allclose(neighbor_votes(train, labels, holdout), expected, atol=1e-6)


def test_images_tensors_lists_and_what_can_be_sliced_are_all_the_same() -> None:
    generator = np.random.default_rng(3)
    train, holdout = (generator.integers(0, 256, (n, 4, 4, 3)).astype(np.uint8) for n in (3000, 5))
    labels = generator.integers(0, 10, 3000)

    class Sliced:
        def __len__(self) -> int:
            return len(train)

        def __getitem__(self, chosen: slice) -> np.ndarray:
            return train[chosen]

    flat = neighbor_votes(train.reshape(3000, -1), labels, holdout.reshape(5, -1))
    tensors = rote.neighbor_votes(*map(torch.from_numpy, (train, labels, holdout)))
    for votes in (
        neighbor_votes(train, labels, holdout),
        tensors,
        neighbor_votes(train.tolist(), labels.tolist(), holdout.tolist()),
        neighbor_votes(Sliced(), labels, holdout),
        neighbor_votes(torch.from_numpy(train).bfloat16(), labels, torch.from_numpy(holdout)),
    ):
        assert (votes == flat).all()


def test_samples_that_are_alike_share_the_last_place() -> None:
    votes = neighbor_votes([[0.0], [1.0], [1.0], [1.0]], [0, 1, 2, 1], [[0.0]], k=2)
    np.testing.assert_allclose(votes, [[1 / 2, 1 / 3, 1 / 6]], rtol=1e-6)


def test_unlabeled_samples_have_no_vote() -> None:
    votes = neighbor_votes([[0.0], [1.0], [2.0]], [-1, 1, 0], [[0.0]], k=1)
    assert votes.tolist() == [[0.0, 1.0]]
    with pytest.raises(InputError, match="at most the number of labeled training samples, 2, got"):
        neighbor_votes([[0.0], [1.0], [2.0]], [-100, 1, 0], [[0.0]], k=3)


def test_votes_use_tfidf_for_texts_and_raw_values_for_sparse_counts() -> None:
    train = [f"{'ball goal' if n % 2 else 'tax vote'} word{n}" for n in range(40)]
    labels = [n % 2 for n in range(40)]
    votes = neighbor_votes(train, labels, ["a goal", "the vote"], k=5)
    assert votes.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    counts = np.random.default_rng(0).poisson(1.0, (30, 8)).astype(float)
    rows = sparse.csr_matrix(counts)
    found = neighbor_votes(rows[:25], np.arange(25) % 3, rows[25:], k=4)
    expected = naive(counts[:25], np.arange(25) % 3, counts[25:], 4, 3)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_sparse_rows_wider_than_fifty_are_reduced_to_fifty() -> None:
    generator = np.random.default_rng(1)
    counts = generator.random((200, 50)) @ (generator.random((50, 90)) < 0.1)
    labels = generator.integers(0, 4, 180)
    found = neighbor_votes(sparse.csr_matrix(counts[:180]), labels, sparse.csr_matrix(counts[180:]))
    # The rows have rank 50: what is kept is all there is.
    np.testing.assert_allclose(found, naive(counts[:180], labels, counts[180:], 10, 4), atol=1e-6)


def test_votes_are_deterministic_without_global_generators() -> None:
    generator = np.random.default_rng(0)
    train, holdout = generator.normal(size=(90, 64)), generator.normal(size=(9, 64))
    labels = generator.integers(0, 3, 90)
    before = np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[index]
    first = neighbor_votes(train, labels, holdout)
    neighbor_votes(sparse.csr_matrix(train), labels, sparse.csr_matrix(holdout))
    assert np.random.get_state()[1].tolist() == before[0]  # type: ignore[index]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert (neighbor_votes(train, labels, holdout) == first).all()


ROWS, GIVEN = np.eye(3), [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ROWS, GIVEN, np.eye(4)), "as many numbers per sample as `train_features` .3., got 4"),
        ((ROWS, [0, 1], ROWS), "`train_labels` to have one label per training sample .3., got 2"),
        ((ROWS, [0.0, 1.0, 2.0], ROWS), "`train_labels` to be integers, .* got float64"),
        ((ROWS * np.nan, GIVEN, ROWS), "`train_features` to be finite numbers .* got NaN"),
        (
            (ROWS, GIVEN, np.full((3, 3), np.inf)),
            "`holdout_features` to be finite numbers .* got NaN",
        ),
        ((ROWS, GIVEN, np.zeros((0, 3))), "`holdout_features` to be finite numbers of shape"),
        ((ROWS, GIVEN, 7), "`holdout_features` to be finite numbers .* got int"),
        ((ROWS, GIVEN, sparse.csr_matrix(ROWS)), "to be of one kind .* got ndarray and csr_matrix"),
        ((["a b", "c"], [0, 1], ROWS), "to be of one kind .* got list and ndarray"),
        ((["", " "], [0, 1], ["x"]), "texts contain no words"),
        ((ROWS, GIVEN, ROWS, 0), "`k` to be"),
        ((ROWS, GIVEN, ROWS, 1, 2), "`train_labels` to be classes from 0 to 1, got 2"),
    ],
)
def test_mismatched_arguments_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        neighbor_votes(*arguments, **({"k": 1} if len(arguments) < 4 else {}))
