import numpy as np
import pytest
import torch

from rote.errors import InputError
from rote.theory.arrays import (
    as_float64,
    as_inputs,
    as_probability,
    as_signs,
    as_steps,
    as_vector,
    iterate_slices,
    take,
)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.uint8])
def test_tensors_of_any_type_become_float64(dtype: torch.dtype) -> None:
    array = as_float64(torch.tensor([1, 2], dtype=dtype), "x")
    assert array.dtype == np.float64
    assert array.tolist() == [1.0, 2.0]


def test_tensors_with_gradients_are_accepted() -> None:
    assert as_float64(torch.ones(2, requires_grad=True), "x").tolist() == [1.0, 1.0]


def test_non_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="Expected `x` to be numbers, got str"):
        as_float64("many", "x")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match="Expected `x` to be finite, got 1 values"):
        as_float64([0.0, bad], "x")


def test_images_become_rows() -> None:
    assert as_inputs(np.zeros((5, 2, 3))).shape == (5, 6)


@pytest.mark.parametrize("shape", [(3,), (0, 2), ()])
def test_inputs_without_rows_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"Expected `x` to be samples of shape \(n, d\)"):
        as_inputs(np.zeros(shape))


@pytest.mark.parametrize("shape", [(4,), (2, 4), (1, 2, 3)])
def test_vectors_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"Expected `y` to be of shape \(3,\)"):
        as_vector(np.ones(shape), "y", 3)


def test_labels_of_another_size_are_refused() -> None:
    with pytest.raises(InputError, match=r"Expected `y` to be of shape \(3,\), got \(2,\)"):
        as_signs([1, -1], "y", 3)


def test_labels_other_than_signs_are_refused() -> None:
    with pytest.raises(InputError, match="Expected `y` to be labels of -1 or 1, got 0"):
        as_signs([1, 0], "y", 2)


@pytest.mark.parametrize(("steps", "got"), [(-1, "-1"), ([1, 2.5], "2.5"), ([[1]], "shape")])
def test_steps_that_cannot_be_counted_are_refused(steps: object, got: str) -> None:
    with pytest.raises(InputError, match=f"Expected `k_tilde` to be .* whole numbers.*got {got}"):
        as_steps(np.array(steps), "k_tilde")


def test_no_steps_at_all_are_refused() -> None:
    with pytest.raises(InputError, match="Expected `k_tilde` to be one or several"):
        as_steps([], "k_tilde")


@pytest.mark.parametrize("noise", [-0.1, 1.5])
def test_non_probabilities_are_refused(noise: float) -> None:
    with pytest.raises(InputError, match=rf"Expected `noise` to be .* in \[0, 1\], got {noise}"):
        as_probability(noise, "noise")


def test_slices_cover_every_index_once() -> None:
    assert [list(range(7))[part] for part in iterate_slices(7, 3)] == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, list])
def test_rows_are_taken_from_arrays_tensors_and_lists(kind: type) -> None:
    x = kind(np.arange(6).reshape(3, 2))
    assert take(x, np.array([2, 0])).tolist() == [[4.0, 5.0], [0.0, 1.0]]


def test_rows_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="got 2 samples and a label at index 2"):
        take(np.ones((2, 2)), np.array([0, 2]))
