from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from rote.errors import InputError
from rote.theory import Spectrum, bounds, nystrom_spectrum, relu_gram, spectrum

FloatArray = npt.NDArray[np.float64]
Rows = Callable[..., FloatArray]


def test_eigenpairs_give_back_the_matrix(unit_rows: Rows) -> None:
    h = relu_gram(unit_rows(20, 5))
    given = h.copy()
    result = spectrum(h)
    v = result.eigenvectors
    np.testing.assert_allclose(v @ np.diag(result.eigenvalues) @ v.T, h, atol=1e-14)
    np.testing.assert_allclose(v.T @ v, np.eye(20), atol=1e-14)
    assert (np.diff(result.eigenvalues) >= 0).all()
    assert result.eigenvalues.sum() == pytest.approx(10)
    assert result.trace_error == 0.0
    np.testing.assert_array_equal(h, given)


def test_projections_keep_the_norm_of_labels(unit_rows: Rows) -> None:
    result = spectrum(relu_gram(unit_rows(12, 5)))
    y = np.random.default_rng(0).choice([-1.0, 1.0], size=(3, 12))
    p = result.project(y)
    np.testing.assert_allclose((p**2).sum(axis=1), 12.0)
    np.testing.assert_allclose(p[1], result.eigenvectors.T @ y[1])


def test_repeated_samples_give_eigenvalues_of_zero() -> None:
    result = spectrum(np.full((3, 3), 0.5))
    assert result.smallest == 0.0
    assert result.largest == pytest.approx(1.5)


def test_extremes_count_the_tail_only_where_directions_are_missing() -> None:
    vectors = np.eye(3)[:, :2]
    low = Spectrum(np.array([0.5, 1.0]), vectors, tail=0.1)
    assert (low.smallest, low.largest, low.missing) == (0.1, 1.0, 1)
    whole = Spectrum(np.array([0.5, 1.0]), np.eye(2), tail=0.1)
    assert (whole.smallest, whole.missing) == (0.5, 0)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 0)])
def test_non_square_matrix_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="Expected `gram` to be a square matrix"):
        spectrum(np.ones(shape))


def test_asymmetric_matrix_is_refused() -> None:
    with pytest.raises(InputError, match=r"symmetric, got entries that differ by 0\.25"):
        spectrum([[1.0, 0.25], [0.0, 1.0]])


def test_matrix_with_negative_eigenvalue_is_refused() -> None:
    with pytest.raises(InputError, match="positive semi-definite, got an eigenvalue of -1"):
        spectrum([[0.0, 1.0], [1.0, 0.0]])


def test_labels_of_another_size_are_refused(unit_rows: Rows) -> None:
    with pytest.raises(InputError, match="Expected `labels` to be of shape"):
        spectrum(relu_gram(unit_rows(4, 3))).project(np.ones(5), "labels")


def matrix_of(pairs: Spectrum) -> FloatArray:
    return np.asarray(pairs.eigenvectors * pairs.eigenvalues @ pairs.eigenvectors.T)


def approximate(x: FloatArray, landmarks: int, passes: int) -> Spectrum:
    rng = np.random.default_rng(0)
    return nystrom_spectrum(x, landmarks=landmarks, passes=passes, rng=rng)


@pytest.mark.parametrize("passes", [0, 1, 2])
def test_all_landmarks_give_the_exact_spectrum(unit_rows: Rows, passes: int) -> None:
    x = 3 * unit_rows(20, 5)
    exact, result = spectrum(relu_gram(x)), approximate(x, 20, passes)
    np.testing.assert_allclose(result.eigenvalues, exact.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(matrix_of(result), relu_gram(x), atol=1e-10)
    assert result.trace_error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("passes", [0, 1])
def test_error_is_the_trace_norm_of_what_is_left_out(unit_rows: Rows, passes: int) -> None:
    x = unit_rows(40, 5)
    h, result = relu_gram(x), approximate(x, 10, passes)
    residual = np.linalg.eigvalsh(h - matrix_of(result))
    assert residual[0] >= -1e-12  # nothing is overestimated
    assert result.trace_error == pytest.approx(np.abs(residual).sum() / 20, rel=1e-10)
    # The tail gives the lost trace back.
    assert result.eigenvalues.sum() + result.missing * result.tail == pytest.approx(20)
    vectors = result.eigenvectors
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-12)
    assert (np.diff(result.eigenvalues) >= 0).all()


def test_landmarks_and_passes_lower_the_error(unit_rows: Rows) -> None:
    x = unit_rows(60, 5)
    errors = [approximate(x, landmarks, 1).trace_error for landmarks in (5, 15, 30, 60)]
    assert errors == sorted(errors, reverse=True)
    by_passes = [approximate(x, 15, passes).trace_error for passes in (0, 1, 2)]
    best = 1 - spectrum(relu_gram(x)).eigenvalues[-15:].sum() / 30
    assert by_passes[0] > by_passes[1] > by_passes[2] >= best


def test_bounds_come_close_to_the_exact_ones(unit_rows: Rows) -> None:
    x = unit_rows(80, 4)
    y = np.sign(x[:, 0])
    exact, low = (
        bounds(pairs, y, eta=0.05, k=20, k_tilde=[0, 10], noise=[0, 0.5], delta=0.05)
        for pairs in (spectrum(relu_gram(x)), approximate(x, 40, 1))
    )
    np.testing.assert_allclose(low.upper, exact.upper, rtol=0.01)
    np.testing.assert_allclose(low.floor, exact.floor, rtol=0.01)


def test_repeated_samples_lower_the_rank(unit_rows: Rows) -> None:
    x = np.repeat(unit_rows(6, 4), 3, axis=0)
    result = nystrom_spectrum(x, landmarks=18, passes=0, rng=np.random.default_rng(0))
    # arccos leaves 1e-8 between equal samples, so their directions may stay, at no weight.
    large = result.eigenvalues[result.eigenvalues > 1e-6]
    np.testing.assert_allclose(large, 3 * spectrum(relu_gram(x[::3])).eigenvalues, rtol=1e-6)


def test_norms_are_forgotten_on_request(unit_rows: Rows) -> None:
    x, scale = unit_rows(10, 4), np.linspace(1, 5, 10)[:, None]
    expected, result = (
        nystrom_spectrum(inputs, landmarks=4, rng=np.random.default_rng(0), normalize=True)
        for inputs in (x, x * scale)
    )
    assert len(result.eigenvalues) == 4
    np.testing.assert_allclose(result.eigenvalues, expected.eigenvalues, rtol=1e-10)
    assert result.tail == pytest.approx(expected.tail)


@pytest.mark.parametrize("landmarks", [0, 6])
def test_landmarks_that_do_not_exist_are_refused(unit_rows: Rows, landmarks: int) -> None:
    with pytest.raises(InputError, match=f"between 1 and the 5 samples, got {landmarks}"):
        approximate(unit_rows(5, 3), landmarks, 1)


def test_negative_passes_are_refused(unit_rows: Rows) -> None:
    with pytest.raises(InputError, match="Expected `passes` to be"):
        approximate(unit_rows(5, 3), 2, -1)
