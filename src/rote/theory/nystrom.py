"""A low-rank spectrum of H∞, for more samples than a matrix of all pairs can hold."""

import numpy as np

from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_inputs, as_step
from rote.theory.gram import relu_gram_product, relu_kernel
from rote.theory.spectrum import Spectrum

# Directions of the landmarks' own matrix below this share of the largest are repeated samples.
RANK_TOLERANCE = 1e-12


def nystrom_spectrum(
    x: Numbers,
    *,
    landmarks: int,
    rng: np.random.Generator,
    passes: int = 1,
    normalize: bool = False,
) -> Spectrum:
    """Approximate the spectrum of H∞ by Nyström's method.

    ``Ĥ = (HΩ) (ΩᵀHΩ)⁻¹ (HΩ)ᵀ`` with as many columns in Ω as landmarks. Without a pass, Ω picks
    random samples, and only their columns of H∞ are computed. A pass replaces Ω by an orthonormal
    basis of HΩ, which costs a product with H∞ and nears its leading eigenvectors.

    ``H∞ - Ĥ`` is positive semi-definite, so that its trace is its trace norm: `trace_error` is the
    exact error of Ĥ relative to ``tr H∞``. The lost trace is then shared by the directions that Ĥ
    does not hold, as their eigenvalue `tail`.

    Args:
        x: Samples, of shape (n, d) or (n, ...), none of them zero.
        landmarks: The rank asked for, at most n. Memory grows with n·landmarks.
        rng: Where the choice of landmarks comes from.
        passes: Products with the whole of H∞, which is computed in blocks and never held.
        normalize: Scale every sample to norm 1 first, as the paper assumes.

    Returns:
        A spectrum of at most `landmarks` eigenpairs, with its `tail` and `trace_error`.

    Raises:
        InputError: A sample is zero, `landmarks` is not between 1 and n, or `passes` is negative.
    """
    samples = as_inputs(x)
    if not 1 <= as_step(landmarks, "landmarks") <= len(samples):
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
    for _ in range(as_step(passes, "passes")):
        basis, _ = np.linalg.qr(sketch)
        sketch = relu_gram_product(samples, basis, normalize=normalize)
        core = basis.T @ sketch
    eigenvalues, eigenvectors = _eigenpairs(sketch, core)
    trace = float(diagonal.sum())
    lost = max(trace - float(eigenvalues.sum()), 0.0)
    missing = len(samples) - len(eigenvalues)
    tail = lost / missing if missing else float(np.median(eigenvalues))
    return Spectrum(eigenvalues, eigenvectors, tail=tail, trace_error=lost / trace)


def _eigenpairs(sketch: FloatArray, core: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the eigenpairs of ``Ĥ = sketch core⁻¹ sketchᵀ``, ascending."""
    values, vectors = np.linalg.eigh((core + core.T) / 2)
    is_held = values > RANK_TOLERANCE * values[-1]
    factor = sketch @ (vectors[:, is_held] / np.sqrt(values[is_held]))
    basis, triangle = np.linalg.qr(factor)
    # Of the triangle, not of factorᵀ factor: squaring would cost half of the digits.
    rotation, singular, _ = np.linalg.svd(triangle)
    return singular[::-1] ** 2, basis @ rotation[:, ::-1]
