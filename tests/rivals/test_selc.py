"""SELC's gap against scikit-learn's mixture, started from the same split."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from rote.rivals.selc import Selc, compute_mixture_gap, split_by_two_means
from rote.tracking import Batch
from tests.rivals.signals import over_a_copy


def by_scikit_learn(losses: np.ndarray) -> float:
    """DivideMix's settings on scaled losses, from the split of k-means."""
    scaled = (losses - losses.min()) / np.ptp(losses)
    high = split_by_two_means(scaled)
    parts = [scaled[~high], scaled[high]]
    mixture = GaussianMixture(
        2,
        max_iter=10,
        tol=1e-2,
        reg_covar=5e-4,
        means_init=[[part.mean()] for part in parts],
        weights_init=[len(part) / len(scaled) for part in parts],
        precisions_init=[[[1 / (part.var() + 5e-4)]] for part in parts],
    )
    means = mixture.fit(scaled[:, None]).means_
    return float(np.ptp(means) * np.ptp(losses))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(6))
def test_equals_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    apart = seed / 2
    losses = np.concatenate([rng.gamma(1, 0.5, 300), apart + rng.gamma(3, 0.4, 200)])
    assert compute_mixture_gap(losses) == pytest.approx(by_scikit_learn(losses), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_first_split_is_that_of_k_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.normal(0, 0.2, 60), rng.normal(2, 0.5, 40)])
    found = KMeans(2, n_init=5, random_state=0).fit(values[:, None])
    is_high = found.labels_ == found.cluster_centers_[:, 0].argmax()
    assert (split_by_two_means(values) == is_high).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=30),
    st.floats(0.1, 10),
    st.floats(-5, 5),
)
def test_shift_and_scale(values: list[int], scale: float, shift: float) -> None:
    losses = np.array(values, dtype=np.float64)
    gap = compute_mixture_gap(losses)
    assert (gap is None) == (len(set(values)) == 1)
    if gap is not None:
        assert 0 <= gap <= np.ptp(losses) + 1e-9
        moved = compute_mixture_gap(scale * losses + shift)
        assert moved == pytest.approx(scale * gap, rel=1e-4, abs=1e-6 * scale)


def test_losses_are_the_cross_entropies_of_the_batches() -> None:
    logits = torch.randn(9, 4, generator=torch.Generator().manual_seed(2))
    labels = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, -100])
    batches = [Batch(labels[part], logits[part]) for part in (slice(4), slice(4, 9))]
    shares = logits.double().softmax(1).numpy()
    losses = np.array([-np.log(shares[i, labels[i]]) for i in range(8)])
    whole, half = over_a_copy(Selc, batches, after=1)
    assert whole["selc"] == pytest.approx(compute_mixture_gap(losses), rel=1e-5)
    assert half == whole


def test_no_value_without_finite_losses() -> None:
    signal = Selc()
    assert signal.read(1) == {}
    signal.observe(Batch(torch.zeros(3, dtype=torch.int64), torch.full((3, 2), float("nan"))))
    assert signal.read(2) == {}
