"""Theorem 1 against the trained network, over widths."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rote.errors import InputError
from rote.theory.arrays import Numbers, as_inputs, as_signs, as_step
from rote.theory.binary_labels import random_labels, redraw_labels
from rote.theory.bounds import Bounds, bounds
from rote.theory.dynamics import distance
from rote.theory.gram import relu_gram
from rote.theory.simulator import simulate
from rote.theory.spectrum import spectrum

WIDTHS = tuple(2**power for power in range(8, 15))


@dataclass(frozen=True)
class CheckRecord:
    """One simulated training beside the formula.

    Attributes:
        width: The number m of hidden units.
        draw: Which draw of the labels; each is used at every width.
        simulated: ``‖f_W(k+k̃) - ỹ‖`` of the trained network.
        predicted: The same by the formula of Theorem 1.
        worst_contraction: The largest ``Φ(t + 1) / Φ(t)`` of the training.
        contraction_limit: ``1 - ηλ_0/2``, which Corollary 1 says it does not exceed.
        is_inside: Whether Φ̃ of the trained network lies within the bounds of Theorem 2.
    """

    width: int
    draw: int
    simulated: float
    predicted: float
    worst_contraction: float
    contraction_limit: float
    is_inside: bool

    @property
    def gap(self) -> float:
        """How far apart they are, the ε of Theorem 1."""
        return abs(self.simulated - self.predicted)


def check(
    x: Numbers,
    y: Numbers,
    *,
    eta: float,
    k: int,
    k_tilde: int,
    rng: np.random.Generator,
    widths: Sequence[int] = WIDTHS,
    noise: float = 0.5,
    delta: float = 0.05,
    kappa: float = 0.3,
    draws: int = 10,
) -> tuple[CheckRecord, ...]:
    """Train two-layer networks of several widths and compare each with Theorems 1 and 2.

    Args:
        x: Inputs, of shape (n, d) or (n, ...); they are scaled to norm 1, as the paper assumes.
        y: The clean labels, -1 or 1, of shape (n,).
        eta: The learning rate η, below 2 / λ_max.
        k: Steps on the training labels.
        k_tilde: Steps on the random labels.
        rng: Where labels and initial weights come from.
        widths: Numbers m of hidden units.
        noise: Label noise level LNL of the training labels.
        delta: The probability δ of a value outside the bounds of Theorem 2.
        kappa: The size κ of the initial weights. Its output, of size κ per sample, is part of the
            gap at every width; the smaller it is, the wider a network must be to behave as H∞ says.
        draws: Draws of the labels; each is trained once at every width.

    Returns:
        A record for each draw and width, draws first.

    Raises:
        InputError: A shape does not fit, or a number is out of its range.
    """
    samples = as_inputs(x)
    eigenpairs = spectrum(relu_gram(samples, normalize=True))
    units = samples / np.linalg.norm(samples, axis=1, keepdims=True)
    labels = as_signs(y, "y", len(samples))
    if as_step(draws, "draws") < 1 or not widths:
        raise InputError(
            f"Expected `draws` and `widths` to hold at least one, got {draws} and {len(widths)}. "
            "Ask for one training or more."
        )
    trained = redraw_labels(labels, noise, draws=draws, rng=rng)
    random = random_labels(len(labels), draws=draws, rng=rng)
    predicted = distance(eigenpairs, trained, random, eta=eta, k=k, k_tilde=k_tilde)
    limits = bounds(eigenpairs, labels, eta=eta, k=k, k_tilde=k_tilde, noise=noise, delta=delta)
    records = []
    for draw in range(draws):
        for width in widths:
            run = simulate(
                units,
                trained[draw],
                random[draw],
                width=width,
                eta=eta,
                k=k,
                k_tilde=k_tilde,
                kappa=kappa,
                rng=rng,
            )
            records.append(
                CheckRecord(
                    width=width,
                    draw=draw,
                    simulated=float(run.distances[-1]),
                    predicted=float(predicted[draw]),
                    worst_contraction=run.worst_contraction,
                    contraction_limit=1 - eta * eigenpairs.smallest / 2,
                    is_inside=_is_inside(float(run.random_objectives[-1]), limits),
                )
            )
    return tuple(records)


def _is_inside(phi: float, limits: Bounds) -> bool:
    """Say whether an objective lies within the only bounds of `limits`."""
    rest = phi - limits.floor[0]
    return bool(limits.lower[0, 0] <= rest <= limits.upper[0, 0])
