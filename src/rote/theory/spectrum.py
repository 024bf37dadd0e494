"""The eigenpairs of a Gram matrix, and the projections of labels on them."""

from dataclasses import dataclass

import numpy as np

from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_float64, as_vector

# Eigenvalues of a positive semi-definite matrix are exact to about n * 1e-16 of the largest.
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Spectrum:
    """``H = Σ_i λ_i v_i v_iᵀ``, all of it or its leading part.

    Attributes:
        eigenvalues: ``λ_i``, ascending, of shape (rank,).
        eigenvectors: ``v_i`` as orthonormal columns, of shape (n, rank).
        tail: The eigenvalue given to the n - rank directions that are not among the columns. When
            there are none, the median eigenvalue; it then has no weight in any result.
        trace_error: ``tr(H - Ĥ) / tr(H)`` where Ĥ is the part that the columns hold: 0 when exact.
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
            y: One value per sample, of shape (n,) or (draws, n).
            name: What the caller calls it, for the message.

        Returns:
            The projections, of shape (rank,) or (draws, rank).

        Raises:
            InputError: `y` has not one value per sample.
        """
        projections: FloatArray = as_vector(y, name, self.samples) @ self.eigenvectors
        return projections


def spectrum(gram: Numbers) -> Spectrum:
    """Compute all eigenpairs of a Gram matrix.

    Args:
        gram: A symmetric positive semi-definite matrix, of shape (n, n). It is not changed.

    Returns:
        The spectrum. Negative eigenvalues that rounding explains (below 1e-10 of the largest, as
        with repeated samples) are set to 0.

    Raises:
        InputError: The matrix is not square, not symmetric or not positive semi-definite.

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
    difference = _asymmetry(matrix)
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


def _asymmetry(matrix: FloatArray) -> float:
    """Compute the largest ``|H_ij - H_ji|``, row by row so that no second matrix is held."""
    return max(float(np.abs(matrix[i, i:] - matrix[i:, i]).max()) for i in range(len(matrix)))
