from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

from rote.errors import InputError
from rote.theory import (
    Simulation,
    TwoLayerNetwork,
    alignment,
    bounds,
    empirical_gram,
    random_labels,
    redraw_labels,
    relu_gram,
    simulate,
    spectrum,
)

FloatArray = npt.NDArray[np.float64]
Rows = Callable[..., FloatArray]


def clusters(n: int = 16) -> tuple[FloatArray, FloatArray]:
    """Two noisy clusters, and labels that follow them."""
    y = np.repeat([1.0, -1.0], n // 2)
    x = y[:, None] * np.array([3.0, 0, 0, 0, 0, 0])
    x = x + np.random.default_rng(0).standard_normal((n, 6))
    return x / np.linalg.norm(x, axis=1, keepdims=True), y


def train(
    x: FloatArray,
    y: FloatArray,
    y_random: FloatArray,
    *,
    seed: int,
    width: int = 2048,
    eta: float = 0.3,
    k: int = 15,
    k_tilde: int = 5,
) -> Simulation:
    return simulate(
        x,
        y,
        y_random,
        width=width,
        eta=eta,
        k=k,
        k_tilde=k_tilde,
        kappa=0.3,
        rng=np.random.default_rng(seed),
    )


def test_outputs_equal_the_formula(unit_rows: Rows) -> None:
    network = TwoLayerNetwork.draw(3, 4, kappa=0.5, rng=np.random.default_rng(0))
    x = unit_rows(2, 3)
    expected = [
        sum(network.signs[r] * max(network.weights[:, r] @ sample, 0) for r in range(4)) / 2
        for sample in x
    ]
    np.testing.assert_allclose(network.outputs(x), expected)


def test_draws_have_the_size_asked_for() -> None:
    network = TwoLayerNetwork.draw(50, 2000, kappa=0.3, rng=np.random.default_rng(0))
    assert network.weights.shape == (50, 2000)
    # 5 standard errors of a standard deviation over 100,000 draws.
    assert network.weights.std() == pytest.approx(0.3, rel=5 / np.sqrt(2e5))
    assert set(network.signs) == {-1.0, 1.0}


def test_steps_are_those_of_autograd(unit_rows: Rows) -> None:
    x, rng = unit_rows(5, 3), np.random.default_rng(1)
    y, y_random = rng.choice([-1.0, 1.0], size=(2, 5))
    result = train(x, y, y_random, seed=2, width=7, k=3, k_tilde=2)
    start = TwoLayerNetwork.draw(3, 7, kappa=0.3, rng=np.random.default_rng(2))
    weights = torch.tensor(start.weights, requires_grad=True)
    inputs, signs = torch.tensor(x), torch.tensor(start.signs)
    seen = []
    for u in [y] * 3 + [y_random] * 2:
        outputs = torch.relu(inputs @ weights) @ signs / 7**0.5
        loss = 0.5 * ((outputs - torch.tensor(u)) ** 2).sum()
        (gradient,) = torch.autograd.grad(loss, weights)
        weights = (weights - 0.3 * gradient).detach().requires_grad_()
        seen.append(loss.item())
    np.testing.assert_allclose(result.network.weights, weights.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(result.objectives[:3], seen[:3], rtol=1e-12)
    np.testing.assert_allclose(result.random_objectives[:2], seen[3:], rtol=1e-12)
    assert (len(result.objectives), len(result.random_objectives)) == (4, 3)
    last = 0.5 * ((result.network.outputs(x) - y_random) ** 2).sum()
    assert result.random_objectives[-1] == pytest.approx(last)
    assert result.distances[-1] == pytest.approx(np.sqrt(2 * last))


def test_corollary_1_both_phases_contract() -> None:
    x, y = clusters()
    limit = 1 - 0.3 * spectrum(relu_gram(x)).smallest / 2
    for seed in range(5):
        y_random = random_labels(len(y), draws=1, rng=np.random.default_rng(seed))[0]
        result = train(x, y, y_random, seed=seed, width=8192, k=40, k_tilde=20)
        assert result.worst_contraction <= limit


def test_contraction_is_the_maximum_over_both_phases() -> None:
    network = TwoLayerNetwork(np.ones((1, 1)), np.ones(1))
    result = Simulation(
        np.array([8.0, 4.0, 3.0]), np.array([5.0, 1.0]), network, (network, network)
    )
    assert result.worst_contraction == 0.75
    fitted = Simulation(np.array([8.0, 0.0, 0.0]), np.array([5.0]), network, (network, network))
    assert fitted.worst_contraction == 0.0


def test_proposition_1_more_steps_lower_the_objective() -> None:
    x, y = clusters()
    for seed in range(10):
        rng = np.random.default_rng(seed)
        noisy = redraw_labels(y, 0.5, draws=1, rng=rng)[0]
        y_random = random_labels(len(y), draws=1, rng=rng)[0]
        result = train(x, noisy, y_random, seed=seed)
        assert (np.diff(result.random_objectives) < 0).all()


def test_proposition_1_more_noise_lowers_the_objective() -> None:
    """Over random draws of both labels and weights, three standard errors from chance."""
    x, y = clusters()
    draws, levels = 150, [0.0, 0.5, 1.0]
    pairs = spectrum(relu_gram(x))
    assert alignment(pairs, y, eta=0.03, k=20, k_tilde=2) > 0
    expected = bounds(pairs, y, eta=0.03, k=20, k_tilde=2, noise=levels, delta=1)
    rng = np.random.default_rng(0)
    y_random = random_labels(len(y), draws=draws, rng=rng)
    phi = np.empty((3, draws))
    for row, noise in enumerate(levels):
        noisy = redraw_labels(y, noise, draws=draws, rng=rng)
        for i in range(draws):
            run = train(x, noisy[i], y_random[i], seed=i, width=1024, eta=0.03, k=20, k_tilde=2)
            phi[row, i] = run.random_objectives[-1]
    for less, more in ((0, 1), (1, 2)):
        fall = phi[less] - phi[more]
        error = fall.std(ddof=1) / np.sqrt(draws)
        assert fall.mean() > 3 * error
        formula = (expected.mu[less, 0] - expected.mu[more, 0]) / 2
        assert abs(fall.mean() - formula) < 4 * error


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_bounds_contain_the_simulated_values(noise: float) -> None:
    x, y = clusters()
    draws, delta = 60, 0.3
    limits = bounds(spectrum(relu_gram(x)), y, eta=0.3, k=15, k_tilde=5, noise=noise, delta=delta)
    rng = np.random.default_rng(1)
    noisy = redraw_labels(y, noise, draws=draws, rng=rng)
    y_random = random_labels(len(y), draws=draws, rng=rng)
    rest = np.array(
        [
            train(x, noisy[i], y_random[i], seed=i).random_objectives[-1] - limits.floor[0]
            for i in range(draws)
        ]
    )
    is_inside = (limits.lower[0, 0] <= rest) & (rest <= limits.upper[0, 0])
    assert is_inside.mean() >= 1 - delta


@pytest.mark.parametrize("width", [0, -3, 1.5])
def test_widths_that_are_no_number_of_units_are_refused(width: float) -> None:
    with pytest.raises(InputError, match="Expected `width` to be"):
        TwoLayerNetwork.draw(2, width, kappa=1, rng=np.random.default_rng(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("kappa", [0.0, -1.0, np.nan])
def test_kappas_that_are_not_positive_are_refused(kappa: float) -> None:
    with pytest.raises(InputError, match="Expected `kappa` to be a number that is positive"):
        TwoLayerNetwork.draw(2, 3, kappa=kappa, rng=np.random.default_rng(0))


def test_inputs_of_another_size_are_refused(unit_rows: Rows) -> None:
    network = TwoLayerNetwork.draw(3, 4, kappa=0.5, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="Expected `x` to be samples of 3 values, got 2"):
        network.outputs(unit_rows(2, 2))


def test_labels_of_another_size_are_refused(unit_rows: Rows) -> None:
    with pytest.raises(InputError, match=r"Expected `y_random` to be of shape \(4,\), got \(3,\)"):
        train(unit_rows(4, 2), np.ones(4), np.ones(3), seed=0)


def test_rates_that_are_not_positive_are_refused(unit_rows: Rows) -> None:
    with pytest.raises(
        InputError, match="Expected `eta` to be a number that is positive and finite, got 0"
    ):
        simulate(
            unit_rows(2, 2),
            [1, 1],
            [1, 1],
            width=2,
            eta=0,
            k=1,
            k_tilde=1,
            kappa=1,
            rng=np.random.default_rng(0),
        )


def test_gram_is_that_of_the_first_layers_gradients() -> None:
    x, _ = clusters()
    network = TwoLayerNetwork.draw(6, 32, kappa=0.5, rng=np.random.default_rng(1))
    module = torch.nn.Sequential(
        torch.nn.Linear(6, 32, bias=False), torch.nn.ReLU(), torch.nn.Linear(32, 1, bias=False)
    ).double()
    with torch.no_grad():
        module[0].weight.copy_(torch.from_numpy(network.weights.T))
        module[2].weight.copy_(torch.from_numpy(network.signs[None] / np.sqrt(32)))
    module[2].requires_grad_(False)
    np.testing.assert_allclose(network.gram(x), empirical_gram(module, torch.from_numpy(x)))


def test_drifts_are_distances_from_the_first_gram_and_shrink_with_the_width() -> None:
    x, y = clusters()
    random = random_labels(len(y), draws=1, rng=np.random.default_rng(2))[0]
    narrow, wide = (train(x, y, random, seed=0, width=width) for width in (64, 4096))
    start, middle = narrow.before
    expected = [
        np.sqrt(((network.gram(x) - start.gram(x)) ** 2).sum())
        for network in (middle, narrow.network)
    ]
    assert narrow.drifts(x) == pytest.approx(expected)
    assert max(wide.drifts(x)) < min(narrow.drifts(x)) / 2


def test_training_that_does_not_move_has_no_drift() -> None:
    x, y = clusters()
    still = train(x, y, y, seed=0, k=0, k_tilde=0)
    assert still.drifts(x) == (0.0, 0.0)
