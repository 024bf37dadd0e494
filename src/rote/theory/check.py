"""Theorem 1 against the trained network, over widths."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean

import numpy as np

from rote.arguments import check_integer
from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_inputs, as_signs
from rote.theory.binary_labels import random_labels, redraw_labels
from rote.theory.bounds import Bounds, bounds
from rote.theory.dynamics import distance
from rote.theory.gram import relu_gram
from rote.theory.simulator import simulate
from rote.theory.spectrum import Spectrum, spectrum

WIDTHS = tuple(2**power for power in range(8, 15))

_TINY = 1e-300  # for a gap of 0, which has no logarithm


@dataclass(frozen=True)
class CheckRecord:
    """One simulated training beside the formula.

    Attributes:
        width: the number m of hidden units.
        draw: which draw of the labels; each is used at every width.
        simulated: ``‖f_W(k+k̃) - ỹ‖`` of the trained network.
        predicted: the same by the formula of Theorem 1.
        worst_contraction: the largest ``Φ(t + 1) / Φ(t)`` of the training.
        contraction_limit: ``1 - ηλ_0/2``, which Corollary 1 says it does not exceed.
        is_inside: whether Φ̃ of the trained network lies within the bounds of Theorem 2.

    Example:
        >>> record = CheckRecord(width=256, draw=0, simulated=1.01, predicted=1.0,
        ...     worst_contraction=0.9,
        ...     contraction_limit=0.95, is_inside=True)
        >>> record.worst_contraction <= record.contraction_limit
        True
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


@dataclass(frozen=True)
class WidthSummary:
    """All draws at one width.

    Attributes:
        width: the number m of hidden units.
        simulated: the mean ``‖f - ỹ‖`` of the trained networks.
        predicted: the mean of the same by Theorem 1.
        gap: the root of the mean squared difference.
        contracting: the share of trainings in which Corollary 1 holds.
        inside: the share that ends within the bounds of Theorem 2.

    Example:
        >>> WidthSummary(256, simulated=1.01, predicted=1.0, gap=0.02, contracting=1.0,
        ...     inside=1.0).gap
        0.02
    """

    width: int
    simulated: float
    predicted: float
    gap: float
    contracting: float
    inside: float


def check(
    x: Numbers,
    y: Numbers,
    *,
    eta: float,
    k: int,
    k_tilde: int,
    rng: np.random.Generator | Sequence[np.random.Generator],
    widths: Sequence[int] = WIDTHS,
    noise: float = 0.5,
    delta: float = 0.05,
    kappa: float = 0.3,
    draws: int = 10,
    progress: Callable[[int], object] | None = None,
) -> tuple[CheckRecord, ...]:
    """Two-layer networks of several widths, each trained and compared with Theorems 1 and 2.

    Args:
        x: inputs, of shape (n, d) or (n, ...); they are scaled to norm 1, as the paper assumes.
        y: the clean labels, -1 or 1, of shape (n,).
        eta: the learning rate η, below 2 / λ_max.
        k: steps on the training labels.
        k_tilde: steps on the random labels.
        rng: where labels and initial weights come from: one generator, or one for each draw, so
            that a draw stays the same however many follow it.
        widths: numbers m of hidden units.
        noise: label noise level LNL of the training labels.
        delta: the probability δ of a value outside the bounds of Theorem 2.
        kappa: the size κ of the initial weights. Its output, of size κ per sample, is part of the
            gap at every width; the smaller it is, the wider a network must be to behave as H∞ says.
        draws: draws of the labels; each is trained once at every width.
        progress: called after each draw with the number of it, from 0.

    Returns:
        A record for each draw and width, draws first.

    Raises:
        InputError: if a shape does not fit, or a number is out of its range.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> found = check(rng.normal(size=(4, 3)), [1, 1, -1, -1], eta=0.1, k=3, k_tilde=3, rng=rng,
        ...     widths=[16], draws=2)
        >>> [record.width for record in found]
        [16, 16]
    """
    samples = as_inputs(x)
    eigenpairs = spectrum(relu_gram(samples, normalize=True))
    units = samples / np.linalg.norm(samples, axis=1, keepdims=True)
    labels = as_signs(y, "y", len(samples))
    _check_counts(draws, widths, rng)
    steps = {"k": k, "k_tilde": k_tilde}
    drawn = _make_draws(eigenpairs, labels, noise, draws, rng, eta=eta, **steps)
    limits = bounds(eigenpairs, labels, eta=eta, noise=noise, delta=delta, **steps)
    records = []
    for number, draw in enumerate(drawn):
        for width in widths:
            run = simulate(
                units,
                draw.trained,
                draw.random,
                width=width,
                eta=eta,
                kappa=kappa,
                rng=draw.rng,
                **steps,
            )
            records.append(
                CheckRecord(
                    width=width,
                    draw=number,
                    simulated=float(run.distances[-1]),
                    predicted=draw.predicted,
                    worst_contraction=run.worst_contraction,
                    contraction_limit=1 - eta * eigenpairs.smallest / 2,
                    is_inside=_is_inside(float(run.random_objectives[-1]), limits),
                )
            )
        if progress is not None:
            progress(number)
    return tuple(records)


def summarize(records: Iterable[CheckRecord]) -> list[WidthSummary]:
    """Return all draws at a width taken together.

    Args:
        records: as ``check`` returns them.

    Returns:
        A summary for each width, narrow ones first.

    Example:
        >>> record = CheckRecord(width=256, draw=0, simulated=1.5, predicted=1.0,
        ...     worst_contraction=0.9,
        ...     contraction_limit=0.95, is_inside=True)
        >>> [summary.gap for summary in summarize([record])]
        [0.5]
    """
    found: dict[int, list[CheckRecord]] = {}
    for record in records:
        found.setdefault(record.width, []).append(record)
    return [
        WidthSummary(
            width=width,
            simulated=fmean(record.simulated for record in chosen),
            predicted=fmean(record.predicted for record in chosen),
            gap=fmean(record.gap**2 for record in chosen) ** 0.5,
            contracting=fmean(
                record.worst_contraction <= record.contraction_limit for record in chosen
            ),
            inside=fmean(record.is_inside for record in chosen),
        )
        for width, chosen in sorted(found.items())
    ]


def gap_exponent(narrow: WidthSummary, wide: WidthSummary) -> float:
    """Fit the exponent p of a gap that scales with the width like ``m^p``; Theorem 1: -0.5.

    Args:
        narrow: all draws at one width; its gap is not 0.
        wide: all draws at a larger width.

    Returns:
        The exponent p.

    Example:
        >>> narrow = WidthSummary(256, simulated=1.0, predicted=1.0, gap=0.2, contracting=1.0,
        ...     inside=1.0)
        >>> wide = WidthSummary(1024, simulated=1.0, predicted=1.0, gap=0.1, contracting=1.0,
        ...     inside=1.0)
        >>> gap_exponent(narrow, wide)
        -0.5
    """
    return log(max(wide.gap, _TINY) / narrow.gap) / log(wide.width / narrow.width)


@dataclass(frozen=True, eq=False)
class _Draw:
    """Labels, what Theorem 1 makes of them, and where the weights that meet them come from."""

    trained: FloatArray
    random: FloatArray
    predicted: float
    rng: np.random.Generator


def _check_counts(
    draws: int, widths: Sequence[int], rng: np.random.Generator | Sequence[np.random.Generator]
) -> None:
    if check_integer("draws", draws) < 1 or not widths:
        raise InputError(
            f"Expected `draws` and `widths` to hold at least one, got {draws} and {len(widths)}. "
            "Ask for one training or more."
        )
    if not isinstance(rng, np.random.Generator) and len(rng) != draws:
        raise InputError(
            f"Expected `rng` to be one generator, or one for each of {draws} draws, got {len(rng)}."
        )


def _make_draws(
    eigenpairs: Spectrum,
    y: FloatArray,
    noise: float,
    draws: int,
    rng: np.random.Generator | Sequence[np.random.Generator],
    *,
    eta: float,
    k: int,
    k_tilde: int,
) -> list[_Draw]:
    parts = [(rng, draws)] if isinstance(rng, np.random.Generator) else [(own, 1) for own in rng]
    found = []
    for own, count in parts:
        trained = redraw_labels(y, noise, draws=count, rng=own)
        random = random_labels(len(y), draws=count, rng=own)
        predicted = distance(eigenpairs, trained, random, eta=eta, k=k, k_tilde=k_tilde)
        found += [_Draw(*row, own) for row in zip(trained, random, predicted.tolist(), strict=True)]
    return found


def _is_inside(phi: float, limits: Bounds) -> bool:
    """Return whether an objective lies within the only bounds of `limits`."""
    rest = phi - limits.floor[0]
    return bool(limits.lower[0, 0] <= rest <= limits.upper[0, 0])
