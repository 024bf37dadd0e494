import numpy as np
import pytest
import torch

from rote.errors import InputError
from rote.theory import binary_labels, random_labels, redraw_labels


def test_parity_keeps_every_sample() -> None:
    result = binary_labels([0, 1, 2, 9])
    assert result.y.tolist() == [1, -1, 1, -1]
    assert result.kept.tolist() == [0, 1, 2, 3]
    assert result.rule == "even classes are 1, odd classes are -1"


def test_pair_keeps_its_two_classes() -> None:
    result = binary_labels(torch.tensor([5, 3, 8, 3, 1]), pair=(3, 8))
    assert result.y.tolist() == [1, -1, 1]
    assert result.kept.tolist() == [1, 2, 3]
    assert result.rule == "class 3 is 1, class 8 is -1"


@pytest.mark.parametrize("pair", [(3, 7), (7, 3), (6, 7)])
def test_pairs_without_samples_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="to have samples on both sides"):
        binary_labels([3, 3, 1], pair=pair)


def test_classes_of_one_parity_are_refused() -> None:
    with pytest.raises(InputError, match="even classes are 1, odd classes are -1"):
        binary_labels([2, 4])


@pytest.mark.parametrize("classes", [[0.5, 1.0], [[1, 2], [3, 4]]])
def test_non_classes_are_refused(classes: list[float]) -> None:
    with pytest.raises(InputError, match="Expected `classes` to be whole numbers"):
        binary_labels(classes)


def test_random_labels_are_signs_with_mean_zero() -> None:
    drawn = random_labels(50, draws=2000, rng=np.random.default_rng(0))
    assert drawn.shape == (2000, 50)
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert abs(drawn.mean()) <= 5 / np.sqrt(drawn.size)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_half_of_the_noise_is_wrong(noise: float) -> None:
    y = random_labels(50, draws=1, rng=np.random.default_rng(0))[0]
    drawn = redraw_labels(y, noise, draws=2000, rng=np.random.default_rng(1))
    wrong = noise / 2
    error = np.sqrt(wrong * (1 - wrong) / drawn.size)
    assert abs((drawn != y).mean() - wrong) <= 5 * error


def test_noise_outside_its_range_is_refused() -> None:
    with pytest.raises(InputError, match=r"Expected `noise` to be .* got 2"):
        redraw_labels(np.ones(3), 2.0, draws=1, rng=np.random.default_rng(0))
