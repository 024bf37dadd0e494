"""Theorem 2 as the paper evaluated it: μ and Σ estimated from a few draws of the labels."""

import numpy as np

from rote.errors import InputError
from rote.theory.arrays import Numbers, as_probability, as_signs, as_step, as_steps
from rote.theory.binary_labels import random_labels, redraw_labels
from rote.theory.bounds import Bounds, check_delta, noise_free_term
from rote.theory.dynamics import filters, objective
from rote.theory.spectrum import Spectrum


def monte_carlo_bounds(
    spectrum: Spectrum,
    y: Numbers,
    *,
    eta: float,
    k: int,
    k_tilde: Numbers,
    noise: Numbers,
    delta: float,
    rng: np.random.Generator,
    draws: int = 10,
) -> Bounds:
    """Estimate μ, Σ and both bounds of Theorem 2 from draws of the label vectors.

    For each noise level, `draws` pairs of training labels and random labels are drawn, the same for
    every k̃. μ is the mean of ``Σ_i p_i² a_i² w_i`` and Σ the sample variance of Φ̃ over them. Use
    `bounds` for the exact values; this shows what the paper's 10 draws can and cannot tell.

    Args:
        spectrum: The eigenpairs of the Gram matrix.
        y: The clean labels, -1 or 1, of shape (n,).
        eta: The learning rate η, below 2 / λ_max.
        k: Steps on the training labels.
        k_tilde: Steps on the random labels: one number or several.
        noise: Label noise level LNL in [0, 1]: one number or several.
        delta: The probability δ of a value outside the bounds, in (0, 1].
        rng: Where the draws come from.
        draws: Pairs of label vectors for each noise level, at least 2.

    Returns:
        Estimates in the shape that `bounds` gives.

    Raises:
        InputError: A label is not -1 or 1, or an argument is out of its range.
    """
    labels = as_signs(y, "y", spectrum.samples)
    steps = np.atleast_1d(as_steps(k_tilde, "k_tilde"))
    levels = np.atleast_1d(as_probability(noise, "noise"))
    if as_step(draws, "draws") < 2:
        raise InputError(f"Expected `draws` to be at least 2, got {draws}. A variance needs two.")
    mu, variance = np.empty((2, len(levels), len(steps)))
    zeros = np.zeros(len(labels))
    for row, level in enumerate(levels):
        drawn = redraw_labels(labels, float(level), draws=draws, rng=rng)
        random = random_labels(len(labels), draws=draws, rng=rng)
        phi = objective(spectrum, drawn, random, eta=eta, k=k, k_tilde=steps)
        variance[row] = phi.var(axis=0, ddof=1)
        # Where the random labels are 0, 2Φ̃ is Σ_i p_i² a_i² w_i.
        fitted = 2 * objective(spectrum, drawn, zeros, eta=eta, k=k, k_tilde=steps)
        mu[row] = fitted.mean(axis=0)
    floor = noise_free_term(spectrum, filters(spectrum, eta=eta, k=k, k_tilde=steps))
    return Bounds(levels, steps, check_delta(delta), mu, variance, floor)
