import pytest
import torch
from hypothesis import given, strategies
from torch import Tensor

from rote.errors import InputError
from rote.labels import IGNORE_INDEX, Marginal, MultiLabel, NeverGiven, PerToken, Uniform


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def frequencies(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels.flatten(), minlength=classes) / labels.numel()


def test_uniform_labels_are_uniform_over_all_classes() -> None:
    drawn = frequencies(Uniform(200_000, 5)(generator()), 5)
    assert drawn.tolist() == pytest.approx([0.2] * 5, abs=0.005)


def test_marginal_labels_follow_the_given_frequencies() -> None:
    given_labels = torch.tensor([0] * 70_000 + [2] * 30_000)
    drawn = frequencies(Marginal(given_labels)(generator()), 3)
    assert drawn.tolist() == pytest.approx([0.7, 0.0, 0.3], abs=0.006)


@given(
    labels=strategies.lists(strategies.integers(0, 6), min_size=1, max_size=50),
    seed=strategies.integers(0, 1000),
)
def test_never_given_labels_differ_everywhere(labels: list[int], seed: int) -> None:
    drawn = NeverGiven(torch.tensor(labels), 7)(generator(seed))
    assert bool((drawn != torch.tensor(labels)).all())
    assert bool(((drawn >= 0) & (drawn < 7)).all())


def test_never_given_reaches_every_other_class_equally() -> None:
    drawn = frequencies(NeverGiven(torch.full((120_000,), 1), 4)(generator()), 4)
    assert drawn.tolist() == pytest.approx([1 / 3, 0.0, 1 / 3, 1 / 3], abs=0.006)


def test_multi_label_is_bernoulli_per_class() -> None:
    drawn = MultiLabel(50_000, 3, probability=0.25)(generator())
    assert drawn.shape == (50_000, 3)
    assert drawn.unique().tolist() == [0.0, 1.0]
    assert drawn.mean(0).tolist() == pytest.approx([0.25] * 3, abs=0.01)


def test_per_token_keeps_ignored_positions() -> None:
    template = torch.tensor([[1, 1, IGNORE_INDEX], [0, IGNORE_INDEX, IGNORE_INDEX]])
    drawn = PerToken(template, 3)(generator())
    assert torch.equal(drawn == IGNORE_INDEX, template == IGNORE_INDEX)
    kept = drawn[template != IGNORE_INDEX]
    assert bool(((kept >= 0) & (kept < 3)).all())


@pytest.mark.parametrize(
    "sampler",
    [
        Uniform(64, 10),
        Marginal(torch.arange(64) % 5),
        NeverGiven(torch.arange(64) % 5, 10),
        MultiLabel(16, 4),
        PerToken(torch.zeros(8, 8), 9),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_the_generator_decides_everything(sampler: Uniform) -> None:
    torch.manual_seed(3)
    global_state = torch.get_rng_state()
    first, again, other = sampler(generator(1)), sampler(generator(1)), sampler(generator(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), global_state)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="Expected `num_classes` to be an integer of at least 2"):
        Uniform(4, 1)
    with pytest.raises(InputError, match="Expected `size` to be an integer of at least 1, got 0"):
        MultiLabel(0, 3)
    with pytest.raises(InputError, match=r"number that is above 0 and below 1, got 1\.5"):
        MultiLabel(2, 3, probability=1.5)
    with pytest.raises(InputError, match="Expected `given` to be labels from 0 to 2, got 3"):
        NeverGiven(torch.tensor([0, 3]), 3)
    with pytest.raises(InputError, match="Expected `given` to be labels from 0 on, got -1"):
        Marginal(torch.tensor([0, -1]))
    with pytest.raises(InputError, match="non-empty vector of integer labels, got shape"):
        Marginal(torch.rand(3))
    with pytest.raises(InputError, match="one label per token"):
        PerToken(torch.zeros(3), 4)
    with pytest.raises(InputError, match="to have tokens to label, got only ignore_index"):
        PerToken(torch.full((2, 2), IGNORE_INDEX), 4)
