"""Theorem 2: bounds on the objective over random labels, exact or estimated, and their table."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rote.arguments import check_integer, check_number
from rote.errors import InputError
from rote.records import BoundsRow, BoundsTable
from rote.theory.arrays import (
    FloatArray,
    Numbers,
    as_probability,
    as_signs,
    as_steps,
    iterate_slices,
    take,
)
from rote.theory.binary_labels import binary_labels, random_labels, redraw_labels
from rote.theory.dynamics import Filters, compute_filters, objective
from rote.theory.gram import relu_gram
from rote.theory.spectrum import Spectrum, nystrom_spectrum, spectrum

ROW_BLOCK = 1024
STEP_BLOCK = 256
NOISE = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Both sides of Theorem 2 for several noise levels (rows) and k̃ (columns).

    With probability at least 1 - δ, ``lower <= Φ̃(k + k̃) - floor <= upper``.

    Attributes:
        noise: label noise levels LNL, of shape (noise,).
        k_tilde: steps on the random labels, of shape (k_tilde,).
        delta: the probability δ of a value outside the bounds.
        mu: ``μ = Σ_i E[p_i²] [1 - (1 - ηλ_i)^k]² (1 - ηλ_i)^(2k̃)``, of shape (noise, k_tilde).
        variance: ``Σ = Var[Φ̃(k + k̃)]`` over both label vectors, of shape (noise, k_tilde).
        floor: ``½ Σ_i (1 - ηλ_i)^(2k̃)``, which no label noise changes, of shape (k_tilde,).

    Example:
        >>> import numpy as np
        >>> from rote.theory import relu_gram, spectrum
        >>> h = spectrum(relu_gram(np.random.default_rng(0).normal(size=(6, 3)), normalize=True))
        >>> found = bounds(h, [1, 1, 1, -1, -1, -1], eta=0.1, k=10, k_tilde=[1, 5], noise=[0, 0.5],
        ...     delta=0.05)
        >>> found.mu.shape, bool((found.lower < found.upper).all())
        ((2, 2), True)
    """

    noise: FloatArray
    k_tilde: FloatArray
    delta: float
    mu: FloatArray
    variance: FloatArray
    floor: FloatArray

    @property
    def lower(self) -> FloatArray:
        """``μ/2 - sqrt(Σ/δ)``, of shape (noise, k_tilde)."""
        return self.mu / 2 - np.sqrt(self.variance / self.delta)

    @property
    def upper(self) -> FloatArray:
        """``μ/2 + sqrt(Σ/δ)``, of shape (noise, k_tilde)."""
        return self.mu / 2 + np.sqrt(self.variance / self.delta)


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums that μ and Σ are made of, one value for each k̃; none depends on the noise.

    With ``q = Vᵀ y`` of the clean labels, ``A = V diag(w a²) Vᵀ``, ``B = V diag(w a) Vᵀ`` and
    ``C = V diag(w) Vᵀ``, so that ``2Φ̃ = yᵀAy - 2yᵀBỹ + ỹᵀCỹ``.

    Attributes:
        aligned: ``Σ_i q_i² w_i a_i² = yᵀAy`` at the clean labels.
        trace: ``Σ_i w_i a_i² = tr A``.
        crossed: ``Σ_i q_i² w_i² a_i² = ‖By‖²`` at the clean labels.
        crossed_trace: ``Σ_i w_i² a_i² = tr B²``.
        pulls: ``Σ_j (Σ_{l≠j} A_jl y_l)²`` at the clean labels.
        couplings: ``Σ_{j≠l} A_jl²``.
        random_couplings: ``Σ_{j≠l} C_jl²``.
        floor: ``½ Σ_i w_i``.
    """

    aligned: FloatArray
    trace: FloatArray
    crossed: FloatArray
    crossed_trace: FloatArray
    pulls: FloatArray
    couplings: FloatArray
    random_couplings: FloatArray
    floor: FloatArray


def bounds(
    spectrum: Spectrum,
    y: Numbers,
    *,
    eta: float,
    k: int,
    k_tilde: Numbers,
    noise: Numbers,
    delta: float,
) -> Bounds:
    """μ, Σ and both bounds of Theorem 2, exactly.

    `y` are the CLEAN labels. Training labels keep each of them with probability 1 - LNL, and draw
    it uniformly from ±1 with probability LNL, each on its own, so that they are independent with
    mean ``ρ y_j``, ``ρ = 1 - LNL``, and variance ``s = 1 - ρ²``; random labels are uniform. Then::

        μ = ρ² Σ_i q_i² w_i a_i² + s Σ_i w_i a_i²
        Σ = s ρ² Σ_j (Σ_{l≠j} A_jl y_l)² + ½ s² Σ_{j≠l} A_jl²
          + ρ² Σ_i q_i² w_i² a_i² + s Σ_i w_i² a_i² + ½ Σ_{j≠l} C_jl²

    in the symbols of `Moments`. The last line alone (LNL = 0) is the variance over ỹ given `y`:
    pass noisy labels as `y` and ``noise=0`` for the bounds of one labeling.

    Args:
        spectrum: the eigenpairs of the Gram matrix.
        y: the clean labels, -1 or 1, of shape (n,).
        eta: the learning rate η, below 2 / λ_max.
        k: steps on the training labels.
        k_tilde: steps on the random labels: one number or several.
        noise: label noise level LNL in [0, 1]: one number or several.
        delta: the probability δ of a value outside the bounds, in (0, 1].

    Returns:
        Bounds whose arrays have shape (noise, k_tilde); one number gives an axis of length 1.

    Raises:
        InputError: if a label is not -1 or 1, or an argument is out of its range.

    Example:
        >>> import numpy as np
        >>> from rote.theory import relu_gram, spectrum
        >>> h = spectrum(relu_gram(np.random.default_rng(0).normal(size=(6, 3)), normalize=True))
        >>> y = [1, 1, 1, -1, -1, -1]
        >>> bounds(h, y, eta=0.1, k=10, k_tilde=[1, 5], noise=[0, 0.5], delta=0.05).upper.shape
        (2, 2)
    """
    labels = as_signs(y, "y", spectrum.samples)
    steps = np.atleast_1d(as_steps(k_tilde, "k_tilde"))
    levels = np.atleast_1d(as_probability(noise, "noise"))
    parts = compute_moments(
        spectrum, labels, eta=eta, k=check_integer("k", k, least=0), k_tilde=steps
    )
    kept = ((1.0 - levels) ** 2)[:, None]
    # 1 - (1 - LNL)², written so that small noise levels keep their digits.
    resampled = (levels * (2.0 - levels))[:, None]
    return Bounds(
        noise=levels,
        k_tilde=steps,
        delta=check_number("delta", delta, above=0, most=1),
        mu=kept * parts.aligned + resampled * parts.trace,
        variance=(
            resampled * kept * parts.pulls
            + 0.5 * resampled**2 * parts.couplings
            + kept * parts.crossed
            + resampled * parts.crossed_trace
            + 0.5 * parts.random_couplings
        ),
        floor=parts.floor,
    )


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
    """μ, Σ and both bounds of Theorem 2, estimated from draws of the label vectors.

    For each noise level, `draws` pairs of training labels and random labels are drawn from `rng`,
    the same for every k̃; there must be 2 or more. μ is the mean of ``Σ_i p_i² a_i² w_i`` and Σ the
    sample variance of Φ̃ over them. This shows what the paper's 10 draws can and cannot tell;
    `bounds` has the exact values, and explains the other arguments.

    Args:
        spectrum: see ``bounds``.
        y: see ``bounds``.
        eta: see ``bounds``.
        k: see ``bounds``.
        k_tilde: see ``bounds``.
        noise: see ``bounds``.
        delta: see ``bounds``.
        rng: the source of the draws.
        draws: how many, at least 2.

    Returns:
        μ, Σ and the bounds, noise levels × k̃.

    Raises:
        InputError: if a label is not -1 or 1, or an argument is out of its range.

    Example:
        >>> import numpy as np
        >>> from rote.theory import relu_gram, spectrum
        >>> h = spectrum(relu_gram(np.random.default_rng(0).normal(size=(6, 3)), normalize=True))
        >>> found = monte_carlo_bounds(h, [1, 1, 1, -1, -1, -1], eta=0.1, k=10, k_tilde=[1, 5],
        ...     noise=[0.5], delta=0.05, rng=np.random.default_rng(1))
        >>> found.variance.shape
        (1, 2)
    """
    labels = as_signs(y, "y", spectrum.samples)
    steps = np.atleast_1d(as_steps(k_tilde, "k_tilde"))
    levels = np.atleast_1d(as_probability(noise, "noise"))
    check_integer("draws", draws, least=2)
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
    floor = compute_noise_free_term(
        spectrum, compute_filters(spectrum, eta=eta, k=k, k_tilde=steps)
    )
    return Bounds(levels, steps, check_number("delta", delta, above=0, most=1), mu, variance, floor)


def alignment(
    spectrum: Spectrum, y: Numbers, *, eta: float, k: int, k_tilde: Numbers
) -> FloatArray:
    """``Σ_i (q_i² - 1) w_i a_i²``: above 0 where label noise lowers the mean objective.

    ``E[Φ̃] = ½ Σ_i w_i + ½ Σ_i w_i a_i² + ½ (1 - LNL)² Σ_i (q_i² - 1) w_i a_i²``, so that this sum
    decides the sign of Proposition 1 in LNL. It is positive while the clean labels hold more of
    what k steps learn, and k̃ steps leave, than random labels do: they lie along large eigenvalues,
    which are learned early, and forgotten early too. After many steps k̃ it turns negative.
    The arguments are those of `bounds`.

    Args:
        spectrum: the spectrum of H.
        y: the clean labels of ±1, of shape (n,).
        eta: the learning rate η.
        k: steps on the training labels.
        k_tilde: steps on the random labels, one number or several.

    Returns:
        The sum for every k̃, of the shape of `k_tilde`.

    Raises:
        InputError: if a label is not -1 or 1, or an argument is out of its range.

    Example:
        >>> import numpy as np
        >>> from rote.theory import relu_gram, spectrum
        >>> h = spectrum(relu_gram(np.random.default_rng(0).normal(size=(6, 3)), normalize=True))
        >>> alignment(h, [1, 1, 1, -1, -1, -1], eta=0.1, k=10, k_tilde=[1, 5]).shape
        (2,)
    """
    q = spectrum.project(as_signs(y, "y", spectrum.samples))
    steps = as_steps(k_tilde, "k_tilde")
    factors = compute_filters(
        spectrum, eta=eta, k=check_integer("k", k, least=0), k_tilde=np.atleast_1d(steps)
    )
    aligned, trace, *_ = _compute_sums(spectrum, factors, q)
    result: FloatArray = (aligned - trace).reshape(steps.shape)[()]
    return result


def compute_moments(
    spectrum: Spectrum, y: FloatArray, *, eta: float, k: int, k_tilde: FloatArray
) -> Moments:
    """Compute the sums of `Moments` for every k̃, in blocks that bound the memory.

    Raises:
        InputError: if η is out of range.
    """
    q = spectrum.project(y)
    pieces = []
    for columns in iterate_slices(len(k_tilde), STEP_BLOCK):
        factors = compute_filters(spectrum, eta=eta, k=k, k_tilde=k_tilde[columns])
        pieces.append(
            (*_compute_sums(spectrum, factors, q), *_compute_couplings(spectrum, factors, q, y))
        )
    joined = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    aligned, trace, crossed, crossed_trace, floor, pulls, couplings, random_couplings = joined
    return Moments(
        aligned, trace, crossed, crossed_trace, pulls, couplings, random_couplings, floor
    )


def compute_noise_free_term(spectrum: Spectrum, factors: Filters) -> FloatArray:
    """``½ Σ_i (1 - ηλ_i)^(2k̃)``, the middle term of Theorem 2, for every k̃."""
    term: FloatArray = 0.5 * (factors.left.sum(axis=0) + spectrum.missing * factors.tail_left)
    return term


def _compute_sums(spectrum: Spectrum, factors: Filters, q: FloatArray) -> tuple[FloatArray, ...]:
    """Compute the sums over the spectrum: aligned, trace, crossed, crossed_trace and floor."""
    left, a = factors.left, factors.learned
    squared = left**2
    tail_a, tail_left = factors.tail_learned**2, factors.tail_left
    # Labels of ±1 have the squared norm n; what the columns do not hold of it is in the tail.
    rest = max(spectrum.samples - float(q @ q), 0.0) if spectrum.missing else 0.0
    return (
        (q * a) ** 2 @ left + rest * tail_a * tail_left,
        a**2 @ left + spectrum.missing * tail_a * tail_left,
        (q * a) ** 2 @ squared + rest * tail_a * tail_left**2,
        a**2 @ squared + spectrum.missing * tail_a * tail_left**2,
        compute_noise_free_term(spectrum, factors),
    )


def _compute_couplings(
    spectrum: Spectrum, factors: Filters, q: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the sums over off-diagonal entries: pulls, couplings and random_couplings.

    ``Σ_{j≠l} M_jl² = Σ_i c_i² - Σ_j M_jj²`` with ``M = V diag(c) Vᵀ`` and ``M_jj = Σ_i V_ji² c_i``.
    """
    # A multiple of the identity changes no off-diagonal entry. Taking away the tail's value makes
    # a low-rank spectrum whole, and keeps the digits when w is near 1 in every direction.
    a_squared = (factors.learned**2)[:, None]
    random = factors.left - factors.tail_left
    trained = a_squared * factors.left - factors.tail_learned**2 * factors.tail_left
    count = trained.shape[1]
    stacked = np.hstack((trained, random))
    pulled = trained * q[:, None]
    pulls, diagonals = np.zeros(count), np.zeros(2 * count)
    for rows in iterate_slices(spectrum.samples, ROW_BLOCK):
        vectors = spectrum.eigenvectors[rows]
        diagonal = vectors**2 @ stacked
        pulls += ((vectors @ pulled - diagonal[:, :count] * y[rows, None]) ** 2).sum(axis=0)
        diagonals += (diagonal**2).sum(axis=0)
    # Rounding can leave a difference of equal sums just below 0.
    off_diagonal = np.maximum((stacked**2).sum(axis=0) - diagonals, 0.0)
    return pulls, off_diagonal[:count], off_diagonal[count:]


def bounds_table(
    x: Numbers,
    classes: Numbers,
    *,
    samples: int,
    eta: float,
    k: int,
    k_tilde: Numbers,
    rng: np.random.Generator,
    noise: Numbers = NOISE,
    delta: float = 0.05,
    pair: tuple[int, int] | None = None,
    landmarks: int | None = None,
) -> BoundsTable:
    """Compute the bounds of Theorem 2 on some samples of a data set.

    Args:
        x: inputs, of shape (n, ...); they are scaled to norm 1, as the paper assumes.
        classes: the clean class of each input, a whole number.
        samples: the number of inputs to draw, without repetition.
        eta: the learning rate η, below 2 / λ_max.
        k: steps on the training labels.
        k_tilde: steps on the random labels: one number or several.
        rng: where the choice of samples (and landmarks) comes from.
        noise: label noise levels LNL in [0, 1].
        delta: the probability δ of a value outside the bounds, in (0, 1].
        pair: use only these two classes, as 1 and -1; by default even and odd classes.
        landmarks: the number of samples of a Nyström spectrum; by default it is exact.

    Returns:
        The rows of the figure and the facts to write on it.

    Raises:
        InputError: if there are fewer inputs than `samples`, or an argument is out of its range.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> table = bounds_table(rng.normal(size=(20, 3)), rng.integers(2, size=20), samples=10,
        ...     eta=0.1,
        ...     k=10, k_tilde=[1, 5], rng=rng)
        >>> len(table.rows), table.samples
        (10, 10)
    """
    labels = binary_labels(classes, pair=pair)
    if not 1 <= check_integer("samples", samples) <= len(labels.kept):
        raise InputError(
            f"Expected `samples` to be between 1 and {len(labels.kept)} ({labels.rule}), "
            f"got {samples}. Ask for fewer."
        )
    chosen = np.sort(rng.choice(len(labels.kept), size=samples, replace=False))
    eigenpairs = _compute_spectrum(take(x, labels.kept[chosen]), landmarks, rng)
    result = bounds(
        eigenpairs, labels.y[chosen], eta=eta, k=k, k_tilde=k_tilde, noise=noise, delta=delta
    )
    return BoundsTable(
        rows=tuple(_make_rows(result)),
        labels=labels.rule,
        samples=samples,
        eta=eta,
        k=k,
        delta=delta,
        trace_error=eigenpairs.trace_error,
        reversed_from=_find_first_reversed(eigenpairs, labels.y[chosen], eta, k, result.k_tilde),
    )


def _compute_spectrum(x: Numbers, landmarks: int | None, rng: np.random.Generator) -> Spectrum:
    """Return the exact spectrum, or that of the requested number of landmarks."""
    if landmarks is None:
        return spectrum(relu_gram(x, normalize=True))
    return nystrom_spectrum(x, landmarks=landmarks, rng=rng, normalize=True)


def _find_first_reversed(
    eigenpairs: Spectrum, y: FloatArray, eta: float, k: int, k_tilde: FloatArray
) -> int | None:
    """Return the smallest k̃ at which Proposition 1 does not hold in the noise level."""
    is_reversed = alignment(eigenpairs, y, eta=eta, k=k, k_tilde=k_tilde) <= 0
    return int(k_tilde[is_reversed].min()) if is_reversed.any() else None


def _make_rows(result: Bounds) -> Iterator[BoundsRow]:
    """Yield arrays of shape (noise, k_tilde) as rows."""
    lower, upper = result.lower, result.upper
    for i, noise in enumerate(result.noise):
        for j, k_tilde in enumerate(result.k_tilde):
            yield BoundsRow(
                noise=float(noise),
                k_tilde=int(k_tilde),
                lower=float(lower[i, j]),
                upper=float(upper[i, j]),
                mu=float(result.mu[i, j]),
                variance=float(result.variance[i, j]),
                floor=float(result.floor[j]),
            )
