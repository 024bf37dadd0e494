import random
from collections import UserDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, Subset, TensorDataset, default_collate

from rote.errors import InputError
from rote.probe import draw_batch, find_inputs

pytestmark = pytest.mark.slow


def draw_inputs(
    dataset: Any,
    collate_fn: Any,
    samples: int = 128,
    inputs_of: Callable[[Any], Any] = find_inputs,
    *,
    seed: int = 0,
) -> Any:
    return draw_batch(dataset, collate_fn, samples, seed=seed, part_of=inputs_of)


class Augmented:
    """Draws from every generator there is, and from some of its own."""

    def __init__(self) -> None:
        self.transforms = [Jitter(), {"deep": Jitter()}]
        self.legacy = np.random.RandomState(0)

    def __len__(self) -> int:
        return 300

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        noise = random.random() + np.random.random() + torch.rand(1).item()
        jitter = self.transforms[0]() + self.transforms[1]["deep"]()  # type: ignore[call-overload]
        return torch.tensor([index, noise, jitter + self.legacy.random()]), index % 3


class Jitter:
    def __init__(self) -> None:
        self.numpy = np.random.default_rng(0)
        self.torch = torch.Generator().manual_seed(0)
        self.python = random.Random(0)

    def __call__(self) -> float:
        drawn = torch.rand(1, generator=self.torch).item()
        return self.numpy.random() + self.python.random() + drawn


def states(dataset: Augmented) -> list[Any]:
    own = [dataset.transforms[0], dataset.transforms[1]["deep"]]  # type: ignore[call-overload]
    return [
        random.getstate(),
        np.random.get_state()[1].tolist(),  # type: ignore[index]
        torch.get_rng_state().tolist(),
        dataset.legacy.get_state()[1].tolist(),  # type: ignore[index]
        *[(o.numpy.bit_generator.state, o.python.getstate()) for o in own],
        *[o.torch.get_state().tolist() for o in own],
    ]


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, range(300))])
def test_drawing_leaves_no_trace_and_repeats_itself(wrap: Any) -> None:
    dataset = Augmented()
    before = states(dataset)
    first = draw_inputs(wrap(dataset), default_collate, 64)
    assert states(dataset) == before
    torch.rand(3), random.random(), np.random.random()
    again = draw_inputs(wrap(dataset), default_collate, 64)
    assert torch.equal(first, again)
    assert not torch.equal(first, draw_inputs(wrap(dataset), default_collate, 64, seed=1))


def test_global_generators_are_restored_if_the_dataset_fails() -> None:
    class Broken(Augmented):
        def __getitem__(self, index: int) -> Any:
            super().__getitem__(index)
            raise OSError("no such file")

    dataset = Broken()
    before = states(dataset)
    with pytest.raises(InputError, match="OSError: no such file. Pass `inputs=`"):
        draw_inputs(dataset, default_collate)
    assert states(dataset) == before


def test_a_set_with_keys_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="training set .* KeyError: .* Pass `inputs=`"):
        draw_inputs({"a": X[0], "b": X[1]}, default_collate)


def test_samples_that_make_no_batch_are_refused() -> None:
    with pytest.raises(InputError, match="made into a batch: TypeError: .* Pass `inputs=`"):
        draw_inputs([object(), object()], default_collate)


def numbers(samples: int) -> torch.Tensor:
    drawn = draw_inputs(Augmented(), default_collate, samples)
    assert isinstance(drawn, torch.Tensor)
    return drawn[:, 0].long()


def test_samples_are_drawn_from_all_over_the_set_each_once() -> None:
    drawn = numbers(128)
    assert len(drawn.unique()) == 128
    assert drawn.max() > 200
    everything = numbers(1000)
    assert torch.equal(everything.sort().values, torch.arange(300))


X, Y = torch.randn(10, 2), torch.arange(10)
ORDER = random.Random(0).sample(range(10), 4)


@pytest.mark.parametrize(
    "collate",
    [
        lambda items: (X[items], Y[items]),
        lambda items: [X[items], Y[items], items],
        lambda items: X[items],
    ],
)
def test_the_inputs_are_the_first_of_a_batch(collate: Any) -> None:
    assert torch.equal(draw_inputs(range(10), collate, 4), X[ORDER])


@pytest.mark.parametrize("kind", [dict, UserDict])
def test_the_inputs_are_a_mapping_without_its_labels(kind: Any) -> None:
    def collate(items: list[int]) -> Any:
        return kind(input_ids=X[items], labels=Y[items], mask=Y[items])

    assert set(draw_inputs(range(10), collate, 4)) == {"input_ids", "mask"}
    tupled = draw_inputs(range(10), lambda items: (collate(items), Y[items]), 4)
    assert set(tupled) == {"input_ids", "mask"}


def test_a_function_may_say_what_the_inputs_are() -> None:
    dataset = TensorDataset(X, Y)
    drawn = draw_inputs(dataset, default_collate, 4, lambda batch: {"index": batch[1]})
    assert isinstance(drawn, dict)
    assert drawn["index"].tolist() == ORDER


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(3))


@pytest.mark.parametrize("dataset", [Stream(), iter([1]), 3])
def test_a_stream_cannot_be_drawn_from(dataset: Any) -> None:
    with pytest.raises(InputError, match=f" {type(dataset).__name__}, .* Pass `inputs=`"):
        draw_inputs(dataset, default_collate)


def test_an_empty_set_or_another_kind_of_batch_is_refused() -> None:
    with pytest.raises(InputError, match="training set is empty. Pass `inputs=`"):
        draw_inputs([], default_collate)
    with pytest.raises(InputError, match="got str. Pass `inputs_of=`"):
        draw_inputs(range(3), lambda items: "batch")
