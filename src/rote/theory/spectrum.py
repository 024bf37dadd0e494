"""The eigenpairs of a Gram matrix, all or by Nyström, and the projections of labels on them."""

from dataclasses import dataclass

import numpy as np

from rote.arguments import check_integer
from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_float64, as_inputs, as_vector
from rote.theory.gram import multiply_relu_gram, relu_kernel

# Eigenvalues of a positive semi-definite matrix are exact to about n * 1e-16 of the largest.
ROUNDING = 1e-10

# Directions of the landmarks' own matrix below this share of the largest are repeated samples.
RANK_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Spectrum:
    """``H = Σ_i λ_i v_i v_iᵀ``, all of it or its leading part.

    Attributes:
        eigenvalues: ``λ_i``, ascending, of shape (rank,).
        eigenvectors: ``v_i`` as orthonormal columns, of shape (n, rank).
        tail: the eigenvalue given to the n - rank directions that are not among the columns. When
            there are none, the median eigenvalue; it then has no weight in any result.
        trace_error: ``tr(H - Ĥ) / tr(H)`` where Ĥ is the part that the columns hold: 0 when exact.

    Example:
        >>> import numpy as np
        >>> from rote.theory import relu_gram
        >>> found = spectrum(relu_gram(np.random.default_rng(0).normal(size=(5, 3)),
        ...     normalize=True))
        >>> found.eigenvectors.shape
        (5, 5)
    """

    eigenvalues: FloatArray
    eigenvectors: FloatArray
    tail: float
    trace_error: float = 0.0

    @property
    def samples(self) -> int:
        """The number n of samples."""
        return len(self.eigenvectors)

    @property
    def missing(self) -> int:
        """The number of directions that share `tail` as their eigenvalue."""
        return self.samples - len(self.eigenvalues)

    @property
    def smallest(self) -> float:
        """The smallest eigenvalue ``λ_0`` of Corollary 1 (of the whole matrix)."""
        smallest = float(self.eigenvalues[0])
        return min(smallest, self.tail) if self.missing else smallest

    @property
    def largest(self) -> float:
        """The largest eigenvalue, which limits the learning rate."""
        return max(float(self.eigenvalues[-1]), self.tail)

    def project(self, y: Numbers, name: str = "y") -> FloatArray:
        """Compute the projections ``p_i = v_iᵀ y``.

        Args:
            y: one value per sample, of shape (n,) or (draws, n).
            name: what the caller calls it, for the message.

        Returns:
            The projections, of shape (rank,) or (draws, rank).

        Raises:
            InputError: if `y` has not one value per sample.
        """
        projections: FloatArray = as_vector(y, name, self.samples) @ self.eigenvectors
        return projections


def spectrum(gram: Numbers) -> Spectrum:
    """Return all eigenpairs of a Gram matrix.

    Args:
        gram: a symmetric positive semi-definite matrix, of shape (n, n). It is not changed.

    Returns:
        The spectrum. Negative eigenvalues that rounding explains (below 1e-10 of the largest, as
        with repeated samples) are set to 0.

    Raises:
        InputError: if the matrix is not square, not symmetric or not positive semi-definite.

    Example:
        >>> spectrum([[0.5, 0.0], [0.0, 0.25]]).eigenvalues.tolist()
        [0.25, 0.5]
    """
    matrix = as_float64(gram, "gram")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise InputError(
            f"Expected `gram` to be a square matrix, got shape {matrix.shape}. "
            "Pass the result of `relu_gram` or `empirical_gram`."
        )
    scale = float(np.abs(matrix).max())
    difference = _measure_asymmetry(matrix)
    if difference > ROUNDING * scale:
        raise InputError(
            f"Expected `gram` to be symmetric, got entries that differ by {difference:.3g}. "
            "Pass (gram + gram.T) / 2 if that is rounding."
        )
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    if eigenvalues[0] < -ROUNDING * max(eigenvalues[-1], 0.0):
        raise InputError(
            "Expected `gram` to be positive semi-definite, got an eigenvalue of "
            f"{eigenvalues[0]:.3g}. A Gram matrix has none below 0."
        )
    eigenvalues = np.maximum(eigenvalues, 0.0)
    return Spectrum(eigenvalues, eigenvectors, tail=float(np.median(eigenvalues)))


def nystrom_spectrum(
    x: Numbers,
    *,
    landmarks: int,
    rng: np.random.Generator,
    passes: int = 1,
    normalize: bool = False,
) -> Spectrum:
    """Compute the spectrum of H∞ by Nyström's method, where the matrix of pairs is too large.

    ``Ĥ = (HΩ) (ΩᵀHΩ)⁻¹ (HΩ)ᵀ`` with as many columns in Ω as landmarks. Without a pass, Ω picks
    random samples, and only their columns of H∞ are computed. A pass replaces Ω by an orthonormal
    basis of HΩ, which costs a product with H∞ and nears its leading eigenvectors.

    ``H∞ - Ĥ`` is positive semi-definite, so that its trace is its trace norm: `trace_error` is the
    exact error of Ĥ relative to ``tr H∞``. The lost trace is then shared by the directions that Ĥ
    does not hold, as their eigenvalue `tail`.

    Args:
        x: samples, of shape (n, d) or (n, ...), none of them zero.
        landmarks: the rank asked for, at most n. Memory grows with n·landmarks.
        rng: where the choice of landmarks comes from.
        passes: products with the whole of H∞, which is computed in blocks and never held.
        normalize: scale every sample to norm 1 first, as the paper assumes.

    Returns:
        A spectrum of at most `landmarks` eigenpairs, with its `tail` and `trace_error`.

    Raises:
        InputError: if a sample is zero, `landmarks` is not in 1 … n, or `passes` is negative.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> found = nystrom_spectrum(rng.normal(size=(50, 3)), landmarks=5, rng=rng, normalize=True)
        >>> found.eigenvectors.shape
        (50, 5)
    """
    samples = as_inputs(x)
    if not 1 <= check_integer("landmarks", landmarks) <= len(samples):
        raise InputError(
            f"Expected `landmarks` to be between 1 and the {len(samples)} samples, "
            f"got {landmarks}. Use `relu_gram` and `spectrum` to have them all."
        )
    chosen = np.sort(rng.choice(len(samples), size=landmarks, replace=False))
    sketch = relu_kernel(samples, samples[chosen], normalize=normalize)
    diagonal = np.full(len(samples), 0.5) if normalize else (samples**2).sum(axis=1) / 2
    # As in `relu_gram`: what a sample has with itself is known better than arccos gives it.
    sketch[chosen, np.arange(landmarks)] = diagonal[chosen]
    core = sketch[chosen]
    for _ in range(check_integer("passes", passes, least=0)):
        basis, _ = np.linalg.qr(sketch)
        sketch = multiply_relu_gram(samples, basis, normalize=normalize)
        core = basis.T @ sketch
    eigenvalues, eigenvectors = _compute_eigenpairs(sketch, core)
    trace = float(diagonal.sum())
    lost = max(trace - float(eigenvalues.sum()), 0.0)
    missing = len(samples) - len(eigenvalues)
    tail = lost / missing if missing else float(np.median(eigenvalues))
    return Spectrum(eigenvalues, eigenvectors, tail=tail, trace_error=lost / trace)


def _measure_asymmetry(matrix: FloatArray) -> float:
    """Return the largest ``|H_ij - H_ji|``, row by row so that no second matrix is held."""
    return max(float(np.abs(matrix[i, i:] - matrix[i:, i]).max()) for i in range(len(matrix)))


def _compute_eigenpairs(sketch: FloatArray, core: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenpairs of ``Ĥ = sketch core⁻¹ sketchᵀ``, ascending."""
    values, vectors = np.linalg.eigh((core + core.T) / 2)
    is_held = values > RANK_TOLERANCE * values[-1]
    factor = sketch @ (vectors[:, is_held] / np.sqrt(values[is_held]))
    basis, triangle = np.linalg.qr(factor)
    # Of the triangle, not of factorᵀ factor: squaring would cost half of the digits.
    rotation, singular, _ = np.linalg.svd(triangle)
    return singular[::-1] ** 2, basis @ rotation[:, ::-1]
