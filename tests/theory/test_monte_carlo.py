import numpy as np
import pytest

from rote.errors import InputError
from rote.theory import Spectrum, bounds, monte_carlo_bounds, relu_gram, spectrum


@pytest.fixture
def pairs() -> Spectrum:
    return spectrum(relu_gram(np.random.default_rng(0).standard_normal((12, 5)), normalize=True))


def labels() -> list[int]:
    return [1, -1, 1, 1, -1, -1, 1, -1, 1, -1, 1, 1]


def test_many_draws_come_to_the_closed_form_within_their_error(pairs: Spectrum) -> None:
    draws = 20_000
    exact = bounds(pairs, labels(), eta=0.3, k=9, k_tilde=[0, 4], noise=[0, 0.4, 1], delta=0.05)
    drawn = monte_carlo_bounds(
        pairs,
        labels(),
        eta=0.3,
        k=9,
        k_tilde=[0, 4],
        noise=[0, 0.4, 1],
        delta=0.05,
        draws=draws,
        rng=np.random.default_rng(1),
    )
    np.testing.assert_allclose(drawn.floor, exact.floor, rtol=1e-14)
    # μ/2 + floor is the mean of Φ̃, and part of Φ̃ has no larger variance than all of it.
    assert (np.abs(drawn.mu - exact.mu) / 2 <= 5 * np.sqrt(exact.variance / draws)).all()
    np.testing.assert_allclose(drawn.mu[0], exact.mu[0], rtol=1e-12)
    # The kurtosis of these quadratic forms is near that of a normal: relative error sqrt(2/draws).
    np.testing.assert_allclose(drawn.variance, exact.variance, rtol=8 * np.sqrt(2 / draws))


def test_the_papers_ten_draws_are_the_default_and_come_from_the_generator(pairs: Spectrum) -> None:
    results = [
        monte_carlo_bounds(
            pairs,
            labels(),
            eta=0.3,
            k=9,
            k_tilde=4,
            noise=0.4,
            delta=0.05,
            rng=np.random.default_rng(seed),
        )
        for seed in (1, 1, 2)
    ]
    assert results[0].upper.shape == (1, 1)
    assert results[0].upper == results[1].upper
    assert results[0].upper != results[2].upper


def test_one_draw_is_refused(pairs: Spectrum) -> None:
    with pytest.raises(InputError, match="Expected `draws` to be at least 2, got 1"):
        monte_carlo_bounds(
            pairs,
            labels(),
            eta=0.3,
            k=9,
            k_tilde=4,
            noise=0.4,
            delta=0.05,
            draws=1,
            rng=np.random.default_rng(0),
        )
