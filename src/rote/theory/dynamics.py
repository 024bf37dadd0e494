"""Theorem 1: the objective on random labels after k steps on `y` and k̃ steps on them."""

from dataclasses import dataclass

import numpy as np

from rote.arguments import check_integer, check_number
from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_float64, as_steps
from rote.theory.spectrum import Spectrum

# Beyond this many steps a float64 no longer counts them one by one.
MAX_STEPS = 2**53


@dataclass(frozen=True, eq=False)
class Filters:
    """What gradient descent does to each eigendirection, for one k and several k̃.

    Attributes:
        learned: ``a_i = 1 - (1 - ηλ_i)^k``, the share of ``p_i`` fitted in k steps: (rank,).
        left: ``w_i = (1 - ηλ_i)^(2k̃)``, what k̃ steps leave of a squared residual: (rank, k̃).
        tail_learned: ``a`` of the eigenvalue shared by the missing directions.
        tail_left: ``w`` of that eigenvalue: (k̃,).
    """

    learned: FloatArray
    left: FloatArray
    tail_learned: float
    tail_left: FloatArray


def compute_filters(spectrum: Spectrum, *, eta: float, k: int, k_tilde: FloatArray) -> Filters:
    """Compute the factors of Theorem 1 in every eigendirection.

    Raises:
        InputError: if η is not positive, or so large that gradient descent diverges.
    """
    check_number("eta", eta, above=0)
    limit = 2.0 / spectrum.largest if spectrum.largest > 0 else np.inf
    if eta >= limit:
        raise InputError(
            f"Expected `eta` to be below 2 / λ_max = {limit:.3g}, got {eta}. "
            "Gradient descent diverges at this rate: lower it."
        )
    rates = eta * np.append(spectrum.eigenvalues, spectrum.tail)
    learned = _compute_learned_share(rates, k)
    left = np.exp(_log_decays(rates)[:, None] * (2.0 * k_tilde))
    return Filters(learned[:-1], left[:-1], float(learned[-1]), left[-1])


def objective(
    spectrum: Spectrum,
    y: Numbers,
    y_random: Numbers,
    *,
    eta: float,
    k: int,
    k_tilde: Numbers,
) -> FloatArray:
    """Compute the objective of Theorem 1 on the random labels after k + k̃ steps.

    ``Φ̃(k + k̃) = ½ Σ_i [p_i - p̃_i - (1 - ηλ_i)^k p_i]² (1 - ηλ_i)^(2k̃)`` with ``p_i = v_iᵀ y``
    and ``p̃_i = v_iᵀ ỹ``.

    Args:
        spectrum: the eigenpairs of the Gram matrix.
        y: labels of the first k steps, of shape (n,) or (draws, n).
        y_random: labels of the next k̃ steps, of shape (n,) or (draws, n).
        eta: the learning rate η, below 2 / λ_max.
        k: steps on `y`.
        k_tilde: steps on `y_random`: one number or several.

    Returns:
        Φ̃, of the shape of `k_tilde`, after a first axis of draws if labels have one.

    Raises:
        InputError: if a shape does not fit, a number of steps is not whole, or η is out of range.

    Example:
        >>> from rote.theory import relu_gram, spectrum
        >>> eigenpairs = spectrum(relu_gram([[1.0, 0.0], [0.0, 1.0]]))
        >>> print(objective(eigenpairs, [1, 1], [1, -1], eta=1.0, k=1, k_tilde=1))
        0.3125
    """
    steps = as_steps(k_tilde, "k_tilde")
    factors = compute_filters(
        spectrum, eta=eta, k=check_integer("k", k, least=0), k_tilde=np.atleast_1d(steps)
    )
    squares, tail_squares = _compute_squared_residuals(spectrum, factors, y, y_random)
    phi = 0.5 * (squares @ factors.left + tail_squares[..., None] * factors.tail_left)
    # The tail is a difference of two sums, so that rounding can leave it just below 0.
    result: FloatArray = np.maximum(phi, 0.0).reshape(squares.shape[:-1] + steps.shape)[()]
    return result


def distance(
    spectrum: Spectrum,
    y: Numbers,
    y_random: Numbers,
    *,
    eta: float,
    k: int,
    k_tilde: Numbers,
) -> FloatArray:
    """``‖f_W(k+k̃) - ỹ‖ = sqrt(2 Φ̃(k + k̃))``, the left side of Theorem 1.

    It takes what `objective` takes, and has its shape.

    Args:
        spectrum: see ``objective``.
        y: see ``objective``.
        y_random: see ``objective``.
        eta: see ``objective``.
        k: see ``objective``.
        k_tilde: see ``objective``.

    Returns:
        The distance at each k̃.

    Raises:
        InputError: if a shape does not fit, a number of steps is not whole, or η is out of range.

    Example:
        >>> import numpy as np
        >>> from rote.theory import relu_gram, spectrum
        >>> h = spectrum(relu_gram(np.random.default_rng(0).normal(size=(4, 3)), normalize=True))
        >>> far, near = distance(h, [1, 1, -1, -1], [1, -1, 1, -1], eta=0.1, k=10, k_tilde=[0, 50])
        >>> bool(near < far)
        True
    """
    phi = objective(spectrum, y, y_random, eta=eta, k=k, k_tilde=k_tilde)
    result: FloatArray = np.sqrt(2.0 * phi)
    return result


def steps_to_memorize(
    spectrum: Spectrum,
    y: Numbers,
    y_random: Numbers,
    *,
    eta: float,
    k: int,
    epsilon: float,
) -> int | None:
    """Compute the resistance k̃*(ε): the first k̃ from which ``Φ̃(k + k̃) <= ε`` for good.

    Φ̃ of Theorem 1 never rises with k̃, so the first step below ε is also the last above it. (The
    paper asks for ``Φ̃ <= ε`` at every ``k̃ > k̃*``, which the step before this one fulfils too.)

    Args:
        spectrum: the eigenpairs of the Gram matrix.
        y: labels of the first k steps, of shape (n,).
        y_random: labels to memorize, of shape (n,).
        eta: the learning rate η, below 2 / λ_max.
        k: steps on `y`.
        epsilon: the objective at which the labels count as memorized.

    Returns:
        The number of steps, or None if 2^53 steps do not suffice (an eigenvalue of 0, as with
        repeated samples that carry different labels).

    Raises:
        InputError: if a shape does not fit, ε is not positive, or η is out of range.

    Example:
        >>> import numpy as np
        >>> from rote.theory import relu_gram, spectrum
        >>> h = spectrum(relu_gram(np.random.default_rng(0).normal(size=(4, 3)), normalize=True))
        >>> steps_to_memorize(h, [1, 1, -1, -1], [1, 1, -1, -1], eta=0.1, k=0, epsilon=4.0)
        0
    """
    check_number("epsilon", epsilon, above=0)  # the objective comes near 0 and never reaches it
    factors = compute_filters(
        spectrum, eta=eta, k=check_integer("k", k, least=0), k_tilde=np.zeros(1)
    )
    squares, tail_squares = _compute_squared_residuals(spectrum, factors, y, y_random)
    if squares.ndim != 1:
        raise InputError(
            f"Expected `y` and `y_random` to be of shape ({spectrum.samples},), got several "
            "draws. Call once for each draw."
        )
    weights = 0.5 * np.append(squares, np.maximum(tail_squares, 0.0))
    log_decays = _log_decays(eta * np.append(spectrum.eigenvalues, spectrum.tail))
    return _find_first_step(weights, log_decays, epsilon)


def _find_first_step(weights: FloatArray, log_decays: FloatArray, epsilon: float) -> int | None:
    """Find the first k̃ with ``Σ weights decays^(2k̃) <= ε`` by doubling, then by bisection."""

    def is_memorized(steps: int) -> bool:
        return bool(weights @ np.exp(2.0 * steps * log_decays) <= epsilon)

    if is_memorized(0):
        return 0
    high = 1
    while not is_memorized(high):
        if high >= MAX_STEPS:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_memorized(middle) else (middle, high)
    return high


def _compute_squared_residuals(
    spectrum: Spectrum,
    factors: Filters,
    y: Numbers,
    y_random: Numbers,
) -> tuple[FloatArray, FloatArray]:
    """``(a_i p_i - p̃_i)²`` in each direction, and their sum over the missing ones."""
    labels, random = as_float64(y, "y"), as_float64(y_random, "y_random")
    p, p_random = spectrum.project(labels), spectrum.project(random, "y_random")
    if p.ndim == p_random.ndim == 2 and len(p) != len(p_random):
        raise InputError(
            f"Expected `y_random` to have as many draws as `y`, {len(p)}, got {len(p_random)}. "
            "Pair them, or give one of them as a vector."
        )
    squares = (factors.learned * p - p_random) ** 2
    if not spectrum.missing:
        return squares, np.zeros(squares.shape[:-1])
    # What the columns do not hold of a y - ỹ keeps its squared norm in any basis.
    whole = ((factors.tail_learned * labels - random) ** 2).sum(axis=-1)
    held = ((factors.tail_learned * p - p_random) ** 2).sum(axis=-1)
    return squares, whole - held


def _log_decays(rates: FloatArray) -> FloatArray:
    """``log|1 - rate|`` without losing the digits of a small rate."""
    small = rates < 0.5
    # A rate of 1 fits its direction in one step; the smallest float stands for its log of 0.
    others = np.log(np.maximum(np.abs(1.0 - rates), np.finfo(np.float64).tiny))
    result: FloatArray = np.where(small, np.log1p(-np.where(small, rates, 0.0)), others)
    return result


def _compute_learned_share(rates: FloatArray, k: int) -> FloatArray:
    """``1 - (1 - rate)^k`` without losing the digits of a small rate."""
    small = rates < 0.5
    precise = -np.expm1(k * np.log1p(-np.where(small, rates, 0.0)))
    result: FloatArray = np.where(small, precise, 1.0 - np.power(1.0 - rates, float(k)))
    return result
