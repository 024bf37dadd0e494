"""Asymmetric noise: maps, the three ways of sampling, and refusals."""

import json
from typing import Any

import numpy as np
import pytest

from rote.errors import InputError
from rote.labels.noise import CLASS_MAPS, NoisyLabels, add_noise

TEN = np.arange(10).repeat(504)
HUNDRED = np.arange(100).repeat(40)


def noisy(clean: np.ndarray, rate: float, **options: Any) -> NoisyLabels:
    options = {"num_classes": int(clean.max()) + 1} | options
    return add_noise(
        clean, model="asymmetric", rate=rate, generator=np.random.default_rng(0), **options
    )


def moves(clean: np.ndarray, result: NoisyLabels) -> dict[int, int]:
    """Class → class, of all labels that changed; each class must go to one class only."""
    pairs = {(int(a), int(b)) for a, b in zip(clean, result.labels, strict=True) if a != b}
    assert len({source for source, _ in pairs}) == len(pairs)
    return dict(pairs)


MAPS = {
    "mnist": {2: 7, 3: 8, 5: 6, 6: 5},
    "mnist_apl": {2: 7, 3: 8, 5: 6, 6: 5, 7: 1},
    "fashion_mnist": {0: 6, 2: 4, 5: 7, 7: 5},
    "cifar10": {9: 1, 2: 0, 3: 5, 5: 3, 4: 7},
}


@pytest.mark.parametrize(("name", "expected"), MAPS.items())
@pytest.mark.parametrize("sampling", [None, "independent", "per-class", "overall"])
def test_labels_move_as_the_map_says(
    name: str, expected: dict[int, int], sampling: str | None
) -> None:
    assert moves(TEN, noisy(TEN, 0.5, class_map=name, sampling=sampling)) == expected


def test_cifar10_is_class_exact() -> None:
    result = noisy(TEN, 0.4, class_map="cifar10")
    changed = np.bincount(TEN[result.mask], minlength=10)
    assert changed.tolist() == [int(0.4 * 504) if c in MAPS["cifar10"] else 0 for c in range(10)]
    assert result.realized_rate == 5 * int(0.4 * 504) / len(TEN)
    assert result.description["sampling"] == "per-class"


def test_dividemix_draws_from_all_samples_and_errs_at_half_the_rate() -> None:
    result = noisy(TEN, 0.4, class_map="cifar10", sampling="overall")
    changed = np.bincount(TEN[result.mask], minlength=10)
    assert len(set(changed[list(MAPS["cifar10"])])) > 1
    deviation = np.sqrt(0.4 * len(TEN) * 0.25)
    assert abs(result.mask.sum() - 0.2 * len(TEN)) < 4 * deviation


def test_dividemix_draws_exactly_the_truncated_count() -> None:
    """When every sample is of a mistaken class, every sample drawn is changed."""
    cats = np.full(1002, 3)
    result = noisy(cats, 0.35, class_map="cifar10", sampling="overall", num_classes=10)
    assert result.mask.sum() == int(0.35 * 1002)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_mnist_maps_flip_independently_with_the_rate(name: str) -> None:
    clean = np.arange(10).repeat(4000)
    result = noisy(clean, 0.3, class_map=name)
    shares = np.bincount(clean[result.mask], minlength=10) / 4000
    sources = list(MAPS[name])
    assert np.abs(shares[sources] - 0.3).max() < 4 * np.sqrt(0.21 / 4000)
    assert len(set(shares[sources])) > 1
    assert np.delete(shares, sources).sum() == 0


def test_cifar100_moves_inside_consecutive_blocks_by_default() -> None:
    expected = {c: 5 * (c // 5) + (c + 1) % 5 for c in range(100)}
    result = noisy(HUNDRED, 0.5, class_map="cifar100")
    assert moves(HUNDRED, result) == expected
    assert result.description["blocks"] == "consecutive"
    assert result.realized_rate == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / len(HUNDRED)))


def test_cifar100_superclass_blocks_move_inside_superclasses() -> None:
    result = noisy(HUNDRED, 0.5, class_map="cifar100", blocks="superclass")
    found = moves(HUNDRED, result)
    # beaver → dolphin → otter → seal → whale → beaver, and maple → oak of the trees
    assert [found[c] for c in (4, 30, 55, 72, 95)] == [30, 55, 72, 95, 4]
    assert found[47] == 52
    assert len(found) == 100
    assert result.description["blocks"] == "superclass"


@pytest.mark.parametrize("own", [{0: 2, 1: 0}, {"0": 2, "1": 0}])
def test_own_map_is_class_exact_and_describable(own: dict[Any, int]) -> None:
    clean = np.arange(3).repeat(10)
    result = noisy(clean, 0.5, class_map=own)
    assert moves(clean, result) == {0: 2, 1: 0}
    assert np.bincount(clean[result.mask], minlength=3).tolist() == [5, 5, 0]
    assert json.loads(json.dumps(result.description)) == {
        "model": "asymmetric",
        "rate": 0.5,
        "num_classes": 3,
        "class_map": {"0": 2, "1": 0},
        "sampling": "per-class",
    }


def test_a_map_that_moves_nothing_changes_nothing() -> None:
    for own in ({}, {1: 1}):
        assert noisy(TEN, 0.5, class_map=own).realized_rate == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Model 'asymmetric' needs `class_map`"),
        (
            {"class_map": "cifar"},
            "Expected `class_map` to be one of mnist, mnist_apl, fashion_mnist, cifar10, "
            "cifar100, got 'cifar'. Did you mean 'cifar10",
        ),
        ({"class_map": 3}, "Expected `class_map` to be one of .*, got 3"),
        ({"class_map": "cifar100"}, "Expected `num_classes` to be 100 for class map 'cifar100'"),
        ({"class_map": "mnist", "num_classes": 11}, "to be 10 for class map 'mnist', got 11"),
        ({"class_map": {0: 10}}, "to name classes between 0 and 9, got 10"),
        ({"class_map": {-1: 0}}, "to name classes between 0 and 9, got -1"),
        ({"class_map": {"cat": 5}}, "to map class indices, got {'cat': 5}"),
        ({"class_map": {0: 1.5}}, "to map class indices, got {0: 1.5}"),
        (
            {"class_map": "cifar10", "sampling": "per_class"},
            "Expected `sampling` to be one of independent, per-class, overall, got 'per_class'. "
            "Did you mean 'per-class'",
        ),
        (
            {"class_map": "cifar10", "blocks": "superclass"},
            "`blocks` applies to class map 'cifar100' only, not to 'cifar10'",
        ),
        (
            {"class_map": "cifar100", "blocks": "super"},
            "Expected `blocks` to be one of consecutive, superclass, got 'super'",
        ),
    ],
)
def test_bad_arguments_of_noise_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        noisy(TEN, 0.5, **options)


def test_published_maps_stay_inside_their_classes() -> None:
    for published in CLASS_MAPS.values():
        named = {*published.targets, *published.targets.values()}
        assert named <= set(range(published.num_classes))
