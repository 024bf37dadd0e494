from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings, strategies as st

from rote.errors import InputError
from rote.theory import Spectrum, distance, objective, relu_gram, spectrum, steps_to_memorize

FloatArray = npt.NDArray[np.float64]
Rows = Callable[..., FloatArray]


def descend(
    h: FloatArray, y: FloatArray, y_random: FloatArray, eta: float, k: int, k_tilde: int
) -> float:
    """Corollary 2 without its perturbation, step by step: f ← f - ηH(f - u) from f = 0."""
    f = np.zeros(len(h))
    for _ in range(k):
        f = f - eta * h @ (f - y)
    for _ in range(k_tilde):
        f = f - eta * h @ (f - y_random)
    return float(0.5 * ((f - y_random) ** 2).sum())


def labels(n: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    y, y_random = np.random.default_rng(seed).choice([-1.0, 1.0], size=(2, n))
    return y, y_random


@pytest.mark.parametrize("share", [0.1, 0.9, 1.0, 1.9])
@pytest.mark.parametrize(("k", "k_tilde"), [(0, 0), (0, 3), (5, 0), (7, 4), (60, 30)])
def test_formula_is_the_recursion(unit_rows: Rows, share: float, k: int, k_tilde: int) -> None:
    h = relu_gram(unit_rows(9, 4))
    eigenpairs, (y, y_random) = spectrum(h), labels(9)
    eta = share / eigenpairs.largest  # 1 fits the first direction at once, 2 diverges
    expected = descend(h, y, y_random, eta, k, k_tilde)
    result = objective(eigenpairs, y, y_random, eta=eta, k=k, k_tilde=k_tilde)
    assert result == pytest.approx(expected, rel=1e-10)
    length = distance(eigenpairs, y, y_random, eta=eta, k=k, k_tilde=k_tilde)
    assert length == pytest.approx(np.sqrt(2 * expected), rel=1e-10)


def test_shapes_follow_draws_and_steps(unit_rows: Rows) -> None:
    eigenpairs = spectrum(relu_gram(unit_rows(5, 4)))
    y = np.random.default_rng(0).choice([-1.0, 1.0], size=(3, 5))
    y_random = labels(5)[1]
    both = objective(eigenpairs, y, y_random, eta=0.5, k=4, k_tilde=[0, 2])
    assert both.shape == (3, 2)
    one = objective(eigenpairs, y[1], y_random, eta=0.5, k=4, k_tilde=2)
    assert one.shape == ()
    assert one == pytest.approx(both[1, 1])
    assert objective(eigenpairs, y, y, eta=0.5, k=4, k_tilde=2).shape == (3,)


def test_tensors_are_accepted(unit_rows: Rows) -> None:
    eigenpairs, (y, y_random) = spectrum(relu_gram(unit_rows(5, 4))), labels(5)
    result = objective(
        eigenpairs, torch.tensor(y), torch.tensor(y_random), eta=0.5, k=4, k_tilde=torch.arange(3)
    )
    expected = objective(eigenpairs, y, y_random, eta=0.5, k=4, k_tilde=np.arange(3))
    np.testing.assert_array_equal(result, expected)


def test_tiny_rates_keep_their_digits(unit_rows: Rows) -> None:
    h = relu_gram(unit_rows(6, 4))
    y = labels(6)[0]
    # To first order f(k) = kηHy, and random labels of 0 leave ½‖f‖².
    result = objective(spectrum(h), y, np.zeros(6), eta=1e-14, k=3, k_tilde=0)
    assert result == pytest.approx(0.5 * ((3e-14 * h @ y) ** 2).sum(), rel=1e-10)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 10), k=st.integers(0, 200), seed=st.integers(0, 2**32 - 1))
def test_more_steps_never_raise_the_objective(n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    eigenpairs = spectrum(relu_gram(rng.standard_normal((n, 3)), normalize=True))
    y, y_random = rng.choice([-1.0, 1.0], size=(2, n))
    phi = objective(
        eigenpairs, y, y_random, eta=1.5 / eigenpairs.largest, k=k, k_tilde=np.arange(50)
    )
    assert (np.diff(phi) <= 1e-12).all()


def low_rank_and_whole(n: int, rank: int, tail: float) -> tuple[Spectrum, Spectrum]:
    """A spectrum that leaves directions to its tail, and the same with all of them written out."""
    vectors, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))
    values = np.linspace(0.2, 3.0, rank)
    whole = spectrum(vectors @ np.diag([*values, *[tail] * (n - rank)]) @ vectors.T)
    return Spectrum(values, vectors[:, :rank], tail=tail), whole


@pytest.mark.parametrize("tail", [0.0, 0.15])
def test_tail_stands_for_the_missing_directions(tail: float) -> None:
    low, whole = low_rank_and_whole(8, 3, tail)
    y, y_random = np.random.default_rng(1).choice([-1.0, 1.0], size=(2, 4, 8))
    results = [
        objective(pairs, y, y_random, eta=0.4, k=6, k_tilde=[0, 5]) for pairs in (low, whole)
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-12)
    steps = [
        steps_to_memorize(pairs, y[0], y_random[0], eta=0.4, k=6, epsilon=1e-3)
        for pairs in (low, whole)
    ]
    assert steps[0] == steps[1]


@pytest.mark.parametrize("epsilon", [5.0, 0.5, 1e-3, 1e-6])
def test_steps_to_memorize_are_those_counted(unit_rows: Rows, epsilon: float) -> None:
    eigenpairs, (y, y_random) = spectrum(relu_gram(unit_rows(6, 5))), labels(6)
    phi = objective(eigenpairs, y, y_random, eta=0.3, k=50, k_tilde=np.arange(5000))
    expected = int(np.flatnonzero(phi <= epsilon)[0])
    assert steps_to_memorize(eigenpairs, y, y_random, eta=0.3, k=50, epsilon=epsilon) == expected


def test_labels_already_fitted_take_no_step(unit_rows: Rows) -> None:
    eigenpairs, (y, _) = spectrum(relu_gram(unit_rows(6, 5))), labels(6)
    assert steps_to_memorize(eigenpairs, y, y, eta=0.3, k=5000, epsilon=0.1) == 0


def test_many_steps_are_counted_at_tiny_rates(unit_rows: Rows) -> None:
    eigenpairs, (y, y_random) = spectrum(relu_gram(unit_rows(6, 5))), labels(6)
    slow, fast = (
        steps_to_memorize(eigenpairs, y, y_random, eta=eta, k=0, epsilon=0.1)
        for eta in (1e-11, 1e-5)
    )
    assert slow is not None
    assert fast is not None
    assert slow == pytest.approx(1e6 * fast, rel=1e-4)


def test_one_sample_with_two_labels_is_never_memorized() -> None:
    eigenpairs = spectrum(relu_gram([[1.0, 0.0], [1.0, 0.0]]))
    assert steps_to_memorize(eigenpairs, [1, 1], [1, -1], eta=0.5, k=3, epsilon=0.5) is None


def test_models_of_clean_labels_resist_longer() -> None:
    """Two clusters, and training labels that follow them or do not: Section 2 in small."""
    rng = np.random.default_rng(0)
    clean = np.repeat([1.0, -1.0], 10)
    x = clean[:, None] * [3.0, 0, 0, 0] + rng.standard_normal((20, 4))
    eigenpairs = spectrum(relu_gram(x, normalize=True))
    noisy, y_random = rng.choice([-1.0, 1.0], size=(2, 40, 20))

    def resistance(y: FloatArray, draw: int) -> int:
        steps = steps_to_memorize(eigenpairs, y, y_random[draw], eta=0.1, k=5, epsilon=10.0)
        assert steps is not None
        return steps

    more = [resistance(clean, draw) - resistance(noisy[draw], draw) for draw in range(40)]
    assert np.mean(more) > 3 * np.std(more) / np.sqrt(40)


@pytest.mark.parametrize("eta", [0.0, -1.0, np.nan, np.inf])
def test_rates_that_are_not_positive_are_refused(unit_rows: Rows, eta: float) -> None:
    eigenpairs, (y, y_random) = spectrum(relu_gram(unit_rows(4, 3))), labels(4)
    with pytest.raises(InputError, match="Expected `eta` to be a number that is positive"):
        objective(eigenpairs, y, y_random, eta=eta, k=1, k_tilde=1)


def test_rates_that_diverge_are_refused(unit_rows: Rows) -> None:
    eigenpairs, (y, y_random) = spectrum(relu_gram(unit_rows(4, 3))), labels(4)
    with pytest.raises(InputError, match=r"Expected `eta` to be below 2 / λ_max = .*, got 50"):
        objective(eigenpairs, y, y_random, eta=50, k=1, k_tilde=1)


def test_draws_that_do_not_pair_are_refused(unit_rows: Rows) -> None:
    eigenpairs = spectrum(relu_gram(unit_rows(4, 3)))
    with pytest.raises(InputError, match="as many draws as `y`, 2, got 3"):
        objective(eigenpairs, np.ones((2, 4)), np.ones((3, 4)), eta=0.1, k=1, k_tilde=1)


def test_random_labels_of_another_size_are_refused_by_name(unit_rows: Rows) -> None:
    eigenpairs = spectrum(relu_gram(unit_rows(4, 3)))
    with pytest.raises(InputError, match="Expected `y_random` to be of shape"):
        objective(eigenpairs, np.ones(4), np.ones(3), eta=0.1, k=1, k_tilde=1)


@pytest.mark.parametrize("k", [-1, 1.5, [1, 2]])
def test_steps_on_the_labels_are_one_whole_number(unit_rows: Rows, k: Any) -> None:
    eigenpairs, (y, y_random) = spectrum(relu_gram(unit_rows(4, 3))), labels(4)
    with pytest.raises(InputError, match="Expected `k` to be an integer of at least 0, got"):
        objective(eigenpairs, y, y_random, eta=0.1, k=k, k_tilde=1)


def test_objectives_of_zero_are_refused(unit_rows: Rows) -> None:
    eigenpairs, (y, y_random) = spectrum(relu_gram(unit_rows(4, 3))), labels(4)
    with pytest.raises(
        InputError, match="Expected `epsilon` to be a number that is positive and finite, got 0"
    ):
        steps_to_memorize(eigenpairs, y, y_random, eta=0.1, k=1, epsilon=0)


def test_resistance_of_several_draws_is_refused(unit_rows: Rows) -> None:
    eigenpairs = spectrum(relu_gram(unit_rows(4, 3)))
    with pytest.raises(InputError, match="got several draws"):
        steps_to_memorize(eigenpairs, np.ones((2, 4)), np.ones(4), eta=0.1, k=1, epsilon=1)
