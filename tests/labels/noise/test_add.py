"""What holds for every noise model, and every refusal they share."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rote.errors import InputError
from rote.labels import noise
from rote.labels.noise import NOISE_MODELS, NoisyLabels, add_noise

MODELS = sorted(set(NOISE_MODELS) - {"human"})


def noisy(
    clean: np.ndarray, model: str, *, rate: float = 0.4, seed: int = 0, **options: Any
) -> NoisyLabels:
    if model == "asymmetric":
        options.setdefault("class_map", "cifar10")
    if model == "instance":
        options.setdefault("inputs", np.arange(3.0 * len(clean)).reshape(-1, 3) / len(clean))
    arguments: dict[str, Any] = {
        "model": model,
        "rate": rate,
        "num_classes": 10,
        "generator": np.random.default_rng(seed),
    }
    return add_noise(clean, **(arguments | options))


labels_of_ten = st.lists(st.integers(0, 9), min_size=1, max_size=60).map(np.array)
rates = st.floats(0, 1)
seeds = st.integers(0, 2**32)


@given(clean=labels_of_ten, model=st.sampled_from(MODELS), rate=rates, seed=seeds)
def test_invariants(clean: np.ndarray, model: str, rate: float, seed: int) -> None:
    before = clean.copy()
    result = noisy(clean, model, rate=rate, seed=seed)
    assert np.array_equal(clean, before)
    assert not np.shares_memory(result.labels, clean)
    assert result.labels.dtype == np.int64
    assert result.labels.shape == clean.shape
    assert ((result.labels >= 0) & (result.labels < 10)).all()
    assert np.array_equal(result.mask, result.labels != clean)
    assert np.array_equal(result.labels[~result.mask], clean[~result.mask])
    assert result.realized_rate == result.mask.mean()
    assert result.requested_rate == rate
    assert result.model == model
    assert json.loads(json.dumps(result.description))["rate"] == rate


@given(clean=labels_of_ten, model=st.sampled_from(MODELS), rate=rates, seed=seeds)
def test_equal_generators_give_equal_labels(
    clean: np.ndarray, model: str, rate: float, seed: int
) -> None:
    first, second = (noisy(clean, model, rate=rate, seed=seed) for _ in range(2))
    assert np.array_equal(first.labels, second.labels)


@given(clean=labels_of_ten, model=st.sampled_from(MODELS), seed=seeds)
def test_rate_zero_changes_nothing(clean: np.ndarray, model: str, seed: int) -> None:
    assert np.array_equal(noisy(clean, model, rate=0, seed=seed).labels, clean)


@pytest.mark.parametrize("model", MODELS)
def test_draws_only_from_the_given_generator(model: str) -> None:
    clean = np.arange(10).repeat(30)
    np.random.seed(0)
    untouched = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    first = noisy(clean, model, seed=1)
    assert np.array_equal(np.random.get_state()[1], untouched)  # type: ignore[index]
    assert not np.array_equal(first.labels, noisy(clean, model, seed=2).labels)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rate", [-0.01, 1.01, math.nan, math.inf, None, "0.5", True])
def test_wrong_rates_are_refused(model: str, rate: Any) -> None:
    with pytest.raises(
        InputError, match=f"Expected `rate` to be a number from 0 to 1, got {rate!r}"
    ):
        noisy(np.arange(10), model, rate=rate)


@pytest.mark.parametrize("model", sorted(NOISE_MODELS))
@pytest.mark.parametrize(
    ("clean", "message"),
    [
        (np.array([0, 10]), r"Expected `labels` to lie between 0 and 9 .*, got 10"),
        (np.array([-1, 3]), r"Expected `labels` to lie between 0 and 9 .*, got -1"),
        (
            np.array([0.0, 1.0]),
            "Expected `labels` to be a one-dimensional .*, got float64 of shape",
        ),
        (np.array([True, False]), "Expected `labels` to be a one-dimensional .*, got bool"),
        (np.zeros((2, 2), dtype=int), r"Expected `labels` .*, got int64 of shape \(2, 2\)"),
        (np.zeros(0, dtype=int), r"Expected `labels` .*, got int64 of shape \(0,\)"),
    ],
)
def test_wrong_labels_are_refused(model: str, clean: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        noisy(clean, model)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (
            "symetric-inclusive",
            {},
            "Expected `model` to be one of symmetric-inclusive, symmetric-exclusive, pair, trid, "
            "asymmetric, instance, human, got 'symetric-inclusive'. Did you mean 'symmetric-incl",
        ),
        ("uniform", {}, "Expected `model` to be one of .*, got 'uniform'.$"),
        (
            "pair",
            {"num_classes": 1},
            "Expected `num_classes` to be an integer of at least 2, got 1",
        ),
        ("pair", {"num_classes": 10.0}, "Expected `num_classes` to be .*, got 10.0"),
        ("pair", {"generator": 3}, "Expected `generator` to be a numpy.random.Generator, got int"),
        ("pair", {"table": np.arange(10)}, "Model 'pair' takes no `table`"),
        ("pair", {"blocks": 2}, "Model 'pair' has no option 'blocks'"),
        ("asymmetric", {"block": 2}, "to be one of class_map, sampling, blocks, got 'block'. Did"),
    ],
)
def test_bad_arguments_of_noise_are_refused(
    model: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        noisy(np.arange(10), model, **options)


@pytest.mark.parametrize(
    ("model", "options"),
    [("pair", {"rate": 2.0}), ("asymmetric", {"class_map": "x"}), ("instance", {"input_scale": 0})],
)
def test_a_refused_call_does_not_advance_the_generator(model: str, options: dict[str, Any]) -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(InputError, match="Expected"):
        noisy(np.arange(10), model, generator=generator, **options)
    assert generator.random() == np.random.default_rng(0).random()


def test_inputs_may_be_given_to_every_model() -> None:
    clean = np.arange(10)
    with_inputs = noisy(clean, "pair", inputs=np.zeros((10, 2)))
    assert np.array_equal(with_inputs.labels, noisy(clean, "pair").labels)


def test_lists_and_numpy_scalars_are_taken() -> None:
    result = noisy([0, 1, 2] * 5, "pair", rate=np.float32(0.5), num_classes=np.int64(3))  # type: ignore[arg-type]
    assert json.loads(json.dumps(result.description)) == {
        "model": "pair",
        "rate": 0.5,
        "num_classes": 3,
    }


def test_the_record_is_frozen() -> None:
    result = noisy(np.arange(10), "pair")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'labels'"):
        result.labels = np.arange(10)  # type: ignore[misc]


def test_noise_is_made_without_torch() -> None:
    assert "import torch" not in Path(noise.__file__).read_text()


CLEAN = np.array([0, 1, 2, 2])


def by_people(**options: Any) -> NoisyLabels:
    options = {"rate": None} | options
    return add_noise(
        CLEAN, model="human", num_classes=3, generator=np.random.default_rng(0), **options
    )


def test_human_labels_are_those_of_the_table() -> None:
    table = np.array([0, 2, 2, 1], dtype=np.uint8)
    result = by_people(table=table)
    assert result.labels.tolist() == [0, 2, 2, 1]
    assert result.labels.dtype == np.int64
    assert result.mask.tolist() == [False, True, False, True]
    assert result.realized_rate == 0.5
    assert result.requested_rate is None
    assert result.description == {"model": "human", "rate": None, "num_classes": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Model 'human' needs `table`"),
        ({"table": [0, 1]}, r"Expected `table` to hold one label per sample \(4\), got 2"),
        ({"table": [0, 1, 2, 3]}, "Expected `table` to lie between 0 and 2 .*, got 3"),
        ({"table": [0.0, 1, 2, 2]}, "Expected `table` to be a one-dimensional .* got float64"),
        ({"table": [0, 1, 2, 2], "rate": 0.4}, "Model 'human' .* has no `rate`, got 0.4"),
        ({"table": [0, 1, 2, 2], "seed": 1}, "Model 'human' has no option 'seed'"),
    ],
)
def test_wrong_tables_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        by_people(**options)
