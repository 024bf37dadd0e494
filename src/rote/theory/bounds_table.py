"""The numbers behind the paper's figure of Theorem 2: one row for each noise level and k̃."""

from collections.abc import Iterator

import numpy as np

from rote.arguments import check_integer
from rote.errors import InputError
from rote.records import BoundsRow, BoundsTable
from rote.theory.arrays import FloatArray, Numbers, take
from rote.theory.binary_labels import binary_labels
from rote.theory.bounds import Bounds, alignment, bounds
from rote.theory.gram import relu_gram
from rote.theory.spectrum import Spectrum, nystrom_spectrum, spectrum

NOISE = (0.0, 0.25, 0.5, 0.75, 1.0)


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
        samples: how many inputs to draw, without repetition.
        eta: the learning rate η, below 2 / λ_max.
        k: steps on the training labels.
        k_tilde: steps on the random labels: one number or several.
        rng: where the choice of samples (and landmarks) comes from.
        noise: label noise levels LNL in [0, 1].
        delta: the probability δ of a value outside the bounds, in (0, 1].
        pair: use only these two classes, as 1 and -1; by default even and odd classes.
        landmarks: use a Nyström spectrum from so many samples; by default the exact one.

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
    """Arrays of shape (noise, k_tilde) as rows."""
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
