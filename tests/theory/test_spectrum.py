from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from rote.errors import InputError
from rote.theory import Spectrum, relu_gram, spectrum

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
def test_what_is_not_square_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="Expected `gram` to be a square matrix"):
        spectrum(np.ones(shape))


def test_what_is_not_symmetric_is_refused() -> None:
    with pytest.raises(InputError, match=r"symmetric, got entries that differ by 0\.25"):
        spectrum([[1.0, 0.25], [0.0, 1.0]])


def test_what_is_not_positive_is_refused() -> None:
    with pytest.raises(InputError, match="positive semi-definite, got an eigenvalue of -1"):
        spectrum([[0.0, 1.0], [1.0, 0.0]])


def test_labels_of_another_size_are_refused(unit_rows: Rows) -> None:
    with pytest.raises(InputError, match="Expected `labels` to be of shape"):
        spectrum(relu_gram(unit_rows(4, 3))).project(np.ones(5), "labels")
