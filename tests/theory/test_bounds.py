from collections.abc import Callable
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import ortho_group

from rote.errors import InputError
from rote.theory import (
    Bounds,
    Spectrum,
    alignment,
    bounds,
    monte_carlo_bounds,
    relu_gram,
    spectrum,
)

FloatArray = npt.NDArray[np.float64]
Rows = Callable[..., FloatArray]


def descend(
    h: FloatArray, y: FloatArray, y_random: FloatArray, eta: float, k: int, k_tilde: int
) -> FloatArray:
    """Corollary 2 without its perturbation, for label vectors as rows: every pair's objective."""
    step = np.eye(len(h)) - eta * h
    f = y - y @ np.linalg.matrix_power(step, k)
    residuals = (f[:, None] - y_random) @ np.linalg.matrix_power(step, k_tilde)
    return np.asarray(0.5 * (residuals**2).sum(axis=-1))


def enumerate_labels(
    h: FloatArray, y: FloatArray, noise: float, eta: float, k: int, k_tilde: int
) -> tuple[FloatArray, FloatArray]:
    """Every pair of label vectors: its probability and its objective."""
    every = np.array(list(product([-1.0, 1.0], repeat=len(y))))
    # A label is kept, or resampled to itself: 1 - LNL + LNL/2.
    chance = np.where(every == y, 1 - noise / 2, noise / 2).prod(axis=1)
    probability = np.outer(chance, np.full(len(every), 1 / len(every)))
    return probability, descend(h, every, every, eta, k, k_tilde)


def random_problem(n: int, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4))
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.choice([-1.0, 1.0], size=n)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_moments_are_those_of_every_label_vector(n: int, noise: float) -> None:
    x, y = random_problem(n, seed=n)
    h = relu_gram(x)
    result = bounds(spectrum(h), y, eta=0.6, k=3, k_tilde=[0, 1, 9], noise=[0.9, noise], delta=0.05)
    for column, k_tilde in enumerate([0, 1, 9]):
        probability, phi = enumerate_labels(h, y, noise, 0.6, 3, k_tilde)
        mean = (probability * phi).sum()
        variance = (probability * (phi - mean) ** 2).sum()
        assert result.floor[column] + result.mu[1, column] / 2 == pytest.approx(mean, rel=1e-12)
        assert result.variance[1, column] == pytest.approx(variance, rel=1e-11, abs=1e-14)
        half = np.sqrt(variance / 0.05)
        assert result.upper[1, column] == pytest.approx(mean - result.floor[column] + half)
        assert result.lower[1, column] == pytest.approx(mean - result.floor[column] - half)


@pytest.mark.parametrize("delta", [0.02, 0.3, 0.8])
def test_bounds_hold_with_their_probability_exactly(delta: float) -> None:
    x, y = random_problem(7, seed=1)
    h = relu_gram(x)
    for noise in (0.0, 0.5, 1.0):
        result = bounds(spectrum(h), y, eta=0.5, k=4, k_tilde=3, noise=noise, delta=delta)
        probability, phi = enumerate_labels(h, y, noise, 0.5, 4, 3)
        rest = phi - result.floor[0]
        is_inside = (result.lower[0, 0] <= rest) & (rest <= result.upper[0, 0])
        assert probability[is_inside].sum() >= 1 - delta


def test_mu_is_the_formula_of_the_paper() -> None:
    x, y = random_problem(6, seed=2)
    pairs = spectrum(relu_gram(x))
    result = bounds(pairs, y, eta=0.5, k=4, k_tilde=3, noise=0, delta=1)
    expected = sum(
        (v @ y) ** 2 * (1 - (1 - 0.5 * value) ** 4) ** 2 * (1 - 0.5 * value) ** 6
        for value, v in zip(pairs.eigenvalues, pairs.eigenvectors.T, strict=True)
    )
    assert result.mu[0, 0] == pytest.approx(expected)


def test_bounds_of_one_labeling_equal_those_without_noise() -> None:
    """Given training labels, only the random ones are drawn."""
    x, y = random_problem(6, seed=3)
    h = relu_gram(x)
    every = np.array(list(product([-1.0, 1.0], repeat=6)))
    phi = descend(h, y[None], every, 0.5, 4, 3)[0]
    result = bounds(spectrum(h), y, eta=0.5, k=4, k_tilde=3, noise=0, delta=1)
    assert result.variance[0, 0] == pytest.approx(phi.var(), rel=1e-12)


def test_numbers_give_axes_of_length_one() -> None:
    x, y = random_problem(4, seed=0)
    one = bounds(spectrum(relu_gram(x)), y, eta=0.1, k=5, k_tilde=7, noise=0.5, delta=0.1)
    several = bounds(
        spectrum(relu_gram(x)), y, eta=0.1, k=5, k_tilde=[1, 7], noise=[0, 0.2, 0.5], delta=0.1
    )
    for name in ("mu", "variance", "lower", "upper"):
        assert getattr(one, name).shape == (1, 1)
        assert getattr(several, name).shape == (3, 2)
        assert getattr(several, name).dtype == np.float64
        assert getattr(one, name)[0, 0] == pytest.approx(getattr(several, name)[2, 1], rel=1e-12)
    assert several.floor.shape == several.k_tilde.shape == (2,)
    assert several.noise.tolist() == [0, 0.2, 0.5]


def test_tensors_are_accepted() -> None:
    x, y = random_problem(4, seed=0)
    pairs = spectrum(torch.tensor(relu_gram(torch.tensor(x))))
    result = bounds(
        pairs,
        torch.tensor(y, dtype=torch.int8),
        eta=0.1,
        k=5,
        k_tilde=torch.tensor([1, 7]),
        noise=torch.tensor([0.0, 0.5]),
        delta=0.1,
    )
    expected = bounds(pairs, y, eta=0.1, k=5, k_tilde=[1, 7], noise=[0, 0.5], delta=0.1)
    np.testing.assert_array_equal(result.upper, expected.upper)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_problem(8, seed=4)
    pairs, steps = spectrum(relu_gram(x)), np.arange(7)
    whole = bounds(pairs, y, eta=0.5, k=4, k_tilde=steps, noise=[0.1, 0.6], delta=0.1)
    module = import_module("rote.theory.bounds")  # as an attribute, that name is the function
    monkeypatch.setattr(module, "ROW_BLOCK", 3)
    monkeypatch.setattr(module, "STEP_BLOCK", 2)
    parts = bounds(pairs, y, eta=0.5, k=4, k_tilde=steps, noise=[0.1, 0.6], delta=0.1)
    np.testing.assert_allclose(parts.variance, whole.variance, rtol=1e-12)
    np.testing.assert_allclose(parts.mu, whole.mu, rtol=1e-12)


def test_variance_keeps_its_digits_when_nothing_has_decayed_yet() -> None:
    x, y = random_problem(30, seed=5)
    h = relu_gram(x)
    result = bounds(spectrum(h), y, eta=1e-9, k=0, k_tilde=1, noise=0.5, delta=1)
    # With k = 0 only ½ Σ_{j≠l} C_jl² is left, and C = I - 2ηH to first order.
    off_diagonal = 2e-9 * (h - np.diag(np.diag(h)))
    assert result.variance[0, 0] == pytest.approx(0.5 * (off_diagonal**2).sum(), rel=1e-5)


@pytest.mark.parametrize("tail", [0.0, 0.15])
def test_tail_stands_for_the_missing_directions(tail: float) -> None:
    rng = np.random.default_rng(0)
    vectors, _ = np.linalg.qr(rng.standard_normal((8, 8)))
    values = np.linspace(0.2, 3.0, 3)
    low = Spectrum(values, vectors[:, :3], tail=tail)
    whole = spectrum(vectors @ np.diag([*values, *[tail] * 5]) @ vectors.T)
    y = rng.choice([-1.0, 1.0], size=8)
    results = [
        bounds(pairs, y, eta=0.4, k=6, k_tilde=[0, 5], noise=[0, 0.4, 1], delta=0.1)
        for pairs in (low, whole)
    ]
    for name in ("mu", "variance", "floor"):
        np.testing.assert_allclose(getattr(results[0], name), getattr(results[1], name), rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 12), seed=st.integers(0, 2**32 - 1))
def test_order_rotation_and_names_of_the_classes_do_not_matter(n: int, seed: int) -> None:
    x, y = random_problem(n, seed)
    rng = np.random.default_rng(seed)
    order, rotation = rng.permutation(n), ortho_group.rvs(4, random_state=rng)

    def compute(inputs: FloatArray, labels: FloatArray) -> FloatArray:
        result = bounds(
            spectrum(relu_gram(inputs)),
            labels,
            eta=0.2,
            k=9,
            k_tilde=[0, 4],
            noise=[0.2, 0.7],
            delta=0.05,
        )
        return np.stack([result.lower, result.upper])

    expected = compute(x, y)
    np.testing.assert_allclose(compute(x[order], y[order]), expected, atol=1e-6)
    np.testing.assert_allclose(compute(x @ rotation, y), expected, atol=1e-6)
    np.testing.assert_allclose(compute(x, -y), expected, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 12), k=st.integers(0, 300), seed=st.integers(0, 2**32 - 1))
def test_alignment_decides_the_sign_of_proposition_1(n: int, k: int, seed: int) -> None:
    x, y = random_problem(n, seed)
    pairs, steps = spectrum(relu_gram(x)), np.array([0, 1, 3, 10, 100])
    eta = 1.0 / pairs.largest
    result = bounds(pairs, y, eta=eta, k=k, k_tilde=steps, noise=[0, 0.3, 1], delta=0.1)
    sign = alignment(pairs, y, eta=eta, k=k, k_tilde=steps)
    # E[Φ̃] differs between noise levels by ½ (ρ² - ρ'²) of the alignment.
    np.testing.assert_allclose(result.mu[0] - result.mu[2], sign, atol=1e-12)
    np.testing.assert_allclose(result.mu[1] - result.mu[2], 0.49 * sign, atol=1e-12)
    # In k̃ there is no condition.
    assert (np.diff(result.mu, axis=1) <= 1e-12).all()
    assert (np.diff(result.floor) <= 1e-12).all()


def test_noise_lowers_the_objective_first_and_raises_it_after_many_steps() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 10)
    x = y[:, None] * [3.0, 0, 0, 0] + rng.standard_normal((20, 4))
    pairs = spectrum(relu_gram(x, normalize=True))
    early, late = alignment(pairs, y, eta=0.1, k=100, k_tilde=[0, 20])
    assert early > 0 > late
    assert alignment(pairs, y, eta=0.1, k=100, k_tilde=20) == pytest.approx(late)


def test_mean_objective_falls_with_noise_and_steps_on_mnist(
    mnist: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
) -> None:
    images, classes = mnist
    pairs = spectrum(relu_gram(images[:300], normalize=True))
    y = np.where(classes[:300] % 2 == 0, 1.0, -1.0)
    for eta, k in ((1e-6, 10_000), (1e-3, 100)):
        result = bounds(
            pairs, y, eta=eta, k=k, k_tilde=[0, k // 2, k], noise=[0, 0.5, 1], delta=0.05
        )
        assert (np.diff(result.mu, axis=0) < 0).all()
        assert (np.diff(result.mu, axis=1) < 0).all()
        assert (np.diff(result.upper, axis=0) < 0).all()


@pytest.mark.parametrize("delta", [0.0, 1.5, -0.1])
def test_deltas_that_are_no_probability_are_refused(delta: float) -> None:
    x, y = random_problem(4, seed=0)
    with pytest.raises(
        InputError, match=f"`delta` to be a number that is above 0 and at most 1, got {delta}"
    ):
        bounds(spectrum(relu_gram(x)), y, eta=0.1, k=5, k_tilde=7, noise=0.5, delta=delta)


def test_labels_that_are_no_signs_are_refused() -> None:
    x, _ = random_problem(4, seed=0)
    with pytest.raises(InputError, match="Use `binary_labels`"):
        bounds(spectrum(relu_gram(x)), [0, 1, 2, 3], eta=0.1, k=5, k_tilde=7, noise=0.5, delta=0.1)


def test_rates_that_diverge_are_refused() -> None:
    x, y = random_problem(4, seed=0)
    with pytest.raises(InputError, match="Gradient descent diverges"):
        bounds(spectrum(relu_gram(x)), y, eta=50, k=5, k_tilde=7, noise=0.5, delta=0.1)


@pytest.fixture
def pairs() -> Spectrum:
    return spectrum(relu_gram(np.random.default_rng(0).standard_normal((12, 5)), normalize=True))


def labels() -> list[int]:
    return [1, -1, 1, 1, -1, -1, 1, -1, 1, -1, 1, 1]


def drawn_bounds(pairs: Spectrum, seed: int, **options: Any) -> Bounds:
    given_to: dict[str, Any] = {
        "eta": 0.3,
        "k": 9,
        "k_tilde": 4,
        "noise": 0.4,
        "delta": 0.05,
    } | options
    return monte_carlo_bounds(pairs, labels(), rng=np.random.default_rng(seed), **given_to)


def test_many_draws_come_to_the_closed_form_within_their_error(pairs: Spectrum) -> None:
    draws = 20_000
    exact = bounds(pairs, labels(), eta=0.3, k=9, k_tilde=[0, 4], noise=[0, 0.4, 1], delta=0.05)
    drawn = drawn_bounds(pairs, 1, k_tilde=[0, 4], noise=[0, 0.4, 1], draws=draws)
    np.testing.assert_allclose(drawn.floor, exact.floor, rtol=1e-14)
    # μ/2 + floor is the mean of Φ̃, and part of Φ̃ has no larger variance than all of it.
    assert (np.abs(drawn.mu - exact.mu) / 2 <= 5 * np.sqrt(exact.variance / draws)).all()
    np.testing.assert_allclose(drawn.mu[0], exact.mu[0], rtol=1e-12)
    # The kurtosis of these quadratic forms is near that of a normal: relative error sqrt(2/draws).
    np.testing.assert_allclose(drawn.variance, exact.variance, rtol=8 * np.sqrt(2 / draws))


def test_the_papers_ten_draws_are_the_default_and_come_from_the_generator(pairs: Spectrum) -> None:
    results = [drawn_bounds(pairs, seed) for seed in (1, 1, 2)]
    assert results[0].upper.shape == (1, 1)
    assert results[0].upper == results[1].upper
    assert results[0].upper != results[2].upper


def test_one_draw_is_refused(pairs: Spectrum) -> None:
    with pytest.raises(InputError, match="Expected `draws` to be an integer of at least 2, got 1"):
        drawn_bounds(pairs, 0, draws=1)
