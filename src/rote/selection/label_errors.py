"""Ranking samples by how probably their label is wrong: noise from hard votes, then soft votes.

Step 1 fits the noise matrix T on hard votes. Step 2 fits the prior of the true class on predicted
probabilities, with T held fixed: networks that were trained on noisy labels carry the noise in
their probabilities, and a T that is fitted on those comes out far too small. The probabilities
never enter the estimate of accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rote.errors import InputError
from rote.selection.candidates import Booleans, Floats, Integers
from rote.selection.label_noise import (
    KINDS,
    RATE,
    TINY,
    UNKNOWN,
    fit_matrix,
    make_symmetric_matrix,
    stack,
)
from rote.selection.votes import vote_weights
from rote.store import OutOfSample

_FLOORS_OF_HARD = (0.005, 0.05)
_FLOORS_OF_SOFT = (0.001, 0.02)
"""Added to the votes of networks and of nearest neighbors before the logarithm."""

_RIDGE = 1.0
_ROUNDS = 30
_STEPS, _LAST_STEPS = 8, 60
_CONVERGED = 1e-4
_FOLDS = 4
_MOST_FITTED = 4_000
"""Samples on which kinds of noise are compared; the noise of the best uses all."""


@dataclass(frozen=True)
class LabelErrors:
    """The probability that the label of each sample is wrong.

    Attributes:
        probability: that the given label is wrong; 0 where there is no given label.
        proposed: the most probable class.
        truth: the posterior of the true class, samples × classes.
        noise_rate: the estimated share of wrong labels, from hard votes.
        noise_matrix: T, true class × given label.
    """

    probability: Floats
    proposed: Integers
    truth: Floats
    noise_rate: float
    noise_matrix: Floats

    def flagged(self) -> Integers:
        """Return the most suspicious samples, as many as the noise rate implies."""
        order = np.argsort(-self.probability, kind="stable")
        return order[: round(self.noise_rate * len(order))]


def rank_label_errors(
    given: npt.ArrayLike,
    predicted: Sequence[npt.ArrayLike] | npt.ArrayLike,
    *,
    hard: npt.ArrayLike | None = None,
    neighbors: npt.ArrayLike | None = None,
) -> LabelErrors:
    """Rank samples by the probability that their given label is wrong.

    Args:
        given: the given labels, −1 where there is none.
        predicted: probabilities by networks that were not trained on the samples, networks ×
            samples × classes; NaN where a network was trained on the sample. Each sample needs one.
        hard: votes to fit the noise on, samples × classes; by default those of the networks, which
            count more the more accurate they seem.
        neighbors: the share of each class among the given labels of the nearest samples.

    Returns:
        Probability, proposed label and posterior of every sample, and the noise.

    Raises:
        InputError: if shapes do not fit, or a sample has no prediction.

    Example:
        >>> given = [0, 0, 1, 1, 0]
        >>> predicted = [[[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.05, 0.95]]]
        >>> found = rank_label_errors(given, predicted)
        >>> int(found.probability.argmax()), int(found.proposed[4])
        (4, 1)
    """
    labels = np.asarray(given, dtype=np.int64)
    networks = _check_predictions(np.asarray(predicted, dtype=np.float64), labels)
    near = None if neighbors is None else np.asarray(neighbors, dtype=np.float64)
    weights, votes = np.ones(len(networks)), None if hard is None else np.asarray(hard, float)
    noises, shares, first = _fit_step_one(labels, networks, weights, votes, near)
    if votes is None and len(networks) > 1:  # again, with higher weights for accurate networks
        weights = vote_weights(_compute_accuracies(networks, first), networks.shape[2], len(labels))
        if weights.any():
            noises, shares, first = _fit_step_one(labels, networks, weights, None, near)
    soft = _log_channels(_average_known(networks, weights), near, _FLOORS_OF_SOFT)
    truth = np.zeros_like(first)
    for noise, share in zip(noises, shares, strict=True):
        columns = _make_columns(noise, labels)
        prior = _Prior.start(soft).fit(soft, columns, _LAST_STEPS)
        truth += share * _normalize(prior.predict(soft) * columns)
    known = labels != UNKNOWN
    rows, place = np.arange(len(labels)), np.maximum(labels, 0)
    rate = float(1 - first[rows, place][known].mean()) if known.any() else 0.0
    matrix = np.asarray(sum(s * t for s, t in zip(shares, noises, strict=True)))
    probability = np.where(known, 1 - truth[rows, place], 0.0)
    return LabelErrors(probability, truth.argmax(axis=1), truth, rate, matrix)


def rank_out_of_sample(found: OutOfSample) -> LabelErrors:
    """Rank the samples of runs with folds by networks that were not trained on them.

    Args:
        found: what ``rote.store.read_out_of_sample`` returns.

    Returns:
        The ranking that ``rote suspects`` lists and ``rote clean`` applies.
    """
    return rank_label_errors(
        found.labels, [found.best_probabilities], hard=found.votes, neighbors=found.neighbors
    )


def _check_predictions(predicted: Floats, labels: Integers) -> Floats:
    if predicted.ndim != 3 or predicted.shape[1] != len(labels) or predicted.shape[2] < 2:
        raise InputError(
            "Expected `predicted` to be networks × samples × classes for "
            f"{len(labels)} samples, got shape {predicted.shape}."
        )
    if not _is_known(predicted).any(axis=0).all():
        raise InputError(
            "Some samples have no prediction: `predicted` is NaN there for every network."
        )
    if labels.max(initial=0) >= predicted.shape[2]:
        raise InputError(
            f"Expected `given` to be classes from 0 to {predicted.shape[2] - 1}, got "
            f"{labels.max()}."
        )
    return predicted


def _is_known(networks: Floats) -> Booleans:
    """Return whether each network predicts each sample, networks × samples."""
    return np.asarray(~np.isnan(networks).any(axis=2))


def _average_known(networks: Floats, weights: Floats) -> Floats:
    """Return the weighted mean over the networks that predict each sample."""
    known = _is_known(networks)
    # A sample that only networks without weight predict keeps their plain mean.
    share = np.where(known, weights[:, None], 0.0)
    share = np.where(share.sum(axis=0) > 0, share, known)
    total = np.einsum("ns,nsk->sk", share, np.where(known[:, :, None], networks, 0.0))
    return np.asarray(total / share.sum(axis=0)[:, None])


def _encode_one_hot(networks: Floats) -> Floats:
    known = _is_known(networks)
    top = np.where(known, np.nan_to_num(networks).argmax(axis=2), 0)
    return np.where(known[:, :, None], np.eye(networks.shape[2])[top], np.nan)


def _compute_accuracies(networks: Floats, truth: Floats) -> Floats:
    """Return the mean posterior of every network's predictions."""
    hits = np.nansum(_encode_one_hot(networks) * truth, axis=2)
    known = _is_known(networks)
    return np.asarray((hits * known).sum(axis=1) / np.maximum(known.sum(axis=1), 1))


def _log_channels(
    votes: Floats, near: Floats | None, floors: tuple[float, float]
) -> tuple[Floats, ...]:
    logs = [np.log(votes + floors[0])]
    if near is not None:
        logs.append(np.log(near + floors[1]))
    return tuple(logs)


def _fit_step_one(
    labels: Integers,
    networks: Floats,
    weights: Floats,
    votes: Floats | None,
    near: Floats | None,
) -> tuple[list[Floats], Floats, Floats]:
    """Fit the noise on hard votes: matrices and weights of the kinds, and the posterior."""
    hard = _average_known(_encode_one_hot(networks), weights) if votes is None else votes
    majority = None if near is None else np.eye(near.shape[1])[near.argmax(axis=1)]
    channels = _log_channels(hard, majority, _FLOORS_OF_HARD)
    labeled = np.flatnonzero(labels != UNKNOWN)
    shares = _weigh_kinds(channels, labels, labeled)
    noises, truth = [], np.zeros_like(hard)
    for kind, share in zip(KINDS, shares, strict=True):
        if share < 0.01:
            noises.append(make_symmetric_matrix(RATE, hard.shape[1]))
            continue
        prior, noise = _fit_noise(_take(channels, labeled), labels[labeled], kind)
        noises.append(noise)
        truth += share * _normalize(prior.predict(channels) * _make_columns(noise, labels))
    return noises, shares, truth / truth.sum(axis=1, keepdims=True)


def _weigh_kinds(channels: tuple[Floats, ...], labels: Integers, labeled: Integers) -> Floats:
    """Weight the kinds of noise by how well they predict held-out given labels."""
    rng = np.random.default_rng(0)
    chosen = rng.permutation(labeled)[:_MOST_FITTED]
    found = np.zeros((len(chosen), len(KINDS)))
    for fold in range(_FOLDS):
        seen, unseen = (
            chosen[np.arange(len(chosen)) % _FOLDS != fold],
            chosen[np.arange(len(chosen)) % _FOLDS == fold],
        )
        for column, kind in enumerate(KINDS):
            prior, noise = _fit_noise(_take(channels, seen), labels[seen], kind)
            joint = prior.predict(_take(channels, unseen)) * _make_columns(noise, labels[unseen])
            at = np.arange(len(chosen)) % _FOLDS == fold
            found[at, column] = np.log(np.maximum(joint.sum(axis=1), TINY))
    return stack(found) if len(chosen) >= _FOLDS else np.eye(len(KINDS))[0]


def _take(channels: tuple[Floats, ...], rows: Integers) -> tuple[Floats, ...]:
    return tuple(channel[rows] for channel in channels)


def _fit_noise(channels: tuple[Floats, ...], labels: Integers, kind: str) -> tuple[_Prior, Floats]:
    """Fit prior and noise matrix by expectation maximization."""
    classes = channels[0].shape[1]
    noise, prior = make_symmetric_matrix(RATE, classes), _Prior.start(channels)
    one_hot = np.eye(classes)[labels]
    for _ in range(_ROUNDS):
        columns = _make_columns(noise, labels)
        prior = prior.fit(channels, columns, _STEPS)
        truth = _normalize(prior.predict(channels) * columns)
        before, (_, noise) = noise, fit_matrix(truth.T @ one_hot, kind, RATE)
        if np.abs(noise - before).max() < _CONVERGED:
            break
    return prior, noise


@dataclass(frozen=True)
class _Prior:
    """p(y) = softmax(Σ b_c · log votes_c + a).

    Attributes:
        at: log b of every channel, then a.
    """

    at: Floats

    @classmethod
    def start(cls, channels: tuple[Floats, ...]) -> _Prior:
        return cls(np.zeros(len(channels) + channels[0].shape[1]))

    def predict(self, channels: tuple[Floats, ...]) -> Floats:
        """Return p(y), samples × classes."""
        return _compute_softmax(self.at, channels)

    def fit(self, channels: tuple[Floats, ...], columns: Floats, steps: int) -> _Prior:
        """Maximize the penalized likelihood of the given labels, with the noise held fixed."""
        from scipy.optimize import minimize

        found = minimize(
            compute_penalized_loss,
            self.at,
            (channels, columns),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps},
        )
        return _Prior(np.asarray(found.x))


def compute_penalized_loss(
    at: Floats, channels: tuple[Floats, ...], columns: Floats
) -> tuple[float, Floats]:
    """Return −Σ log Σ_k p_i(k) T[k, y_i] with a ridge penalty, and its gradient.

    Args:
        at: log b of every channel, then a.
        channels: log votes, samples × classes each.
        columns: T[k, y_i], samples × classes.

    Returns:
        The loss, and its gradient by ``at``.
    """
    prior = _compute_softmax(at, channels)
    joint = prior * columns
    marginal = np.maximum(joint.sum(axis=1, keepdims=True), TINY)
    difference = prior - joint / marginal
    by_sharpness = [
        np.exp(at[number]) * np.vdot(difference, channel) for number, channel in enumerate(channels)
    ]
    gradient = np.concatenate((by_sharpness, difference.sum(axis=0))) + _RIDGE * at
    return float(-np.log(marginal).sum() + _RIDGE * (at @ at) / 2), gradient


def _compute_softmax(at: Floats, channels: tuple[Floats, ...]) -> Floats:
    logits = at[len(channels) :] + sum(
        np.exp(at[number]) * channel for number, channel in enumerate(channels)
    )
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _make_columns(noise: Floats, labels: Integers) -> Floats:
    """Return T[k, y_i], samples × classes; 1 where there is no given label."""
    columns = np.maximum(noise, TINY)[:, np.maximum(labels, 0)].T
    return np.where(labels[:, None] == UNKNOWN, 1.0, columns)


def _normalize(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(rows.sum(axis=1, keepdims=True), TINY))
