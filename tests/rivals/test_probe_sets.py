"""ζ on many sets S̃ against trackers of their own, each with one of these sets."""

from pathlib import Path

import pytest
import torch
from torch import nn

import rote
from rote.errors import InputError
from rote.rivals.probe_sets import ProbeSets
from rote.tracking import TrainingSet
from rote.workloads import train
from tests.rivals.signals import context_of
from tests.workloads.small_runs import numbers, small_spec

X = torch.randn(40, 4, generator=torch.Generator().manual_seed(3))
Y = torch.arange(40) % 3


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))


def drawn(seed: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples and labels of a set, as they are documented: nested, by seed."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.randperm(40, generator=generator)[:20]
    return X[places][:size], torch.randint(3, (20,), generator=generator)[:size]


def trained(
    signals: list[ProbeSets], inputs: torch.Tensor, **options: object
) -> list[rote.Reading]:
    """Readings of four epochs of training on X."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tracker = rote.track(model, optimizer, inputs=inputs, num_classes=3, signals=signals, **options)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), Y).backward()
        optimizer.step()
        reading = tracker.probe()
        assert reading is not None
        found.append(reading)
    return found


def test_every_zeta_is_that_of_a_tracker_with_that_set() -> None:
    many = trained([ProbeSets(sizes=[5, 20], seeds=2)], X)
    assert sorted(many[0].metrics) == [
        *("zeta_holdout_20_0", "zeta_holdout_20_1", "zeta_holdout_5_0", "zeta_holdout_5_1")
    ]
    for seed, size in ((0, 5), (1, 20)):
        inputs, labels = drawn(seed, size)
        one = trained([], inputs, labels=labels)
        assert [r.metrics[f"zeta_holdout_{size}_{seed}"] for r in many] == [
            r.susceptibility for r in one
        ]


def test_training_samples_and_those_of_the_holdout(tmp_path: Path) -> None:
    signal = "probe_sets(sizes=[4], seeds=1, origins=['holdout', 'training'])"
    bare, run = train(small_spec(epochs=3)), train(small_spec(epochs=3, signals=[signal]))
    names = {"zeta_holdout_4_0", "zeta_training_4_0"}
    assert names <= set(run.readings[-1].metrics)
    assert len({run.readings[-1].metrics[name] for name in names}) == 2
    for one, other in zip(numbers(run.readings), numbers(bare.readings), strict=True):
        one["metrics"] = {k: v for k, v in one["metrics"].items() if k not in names}
        assert one == other

    def cut(reading: rote.Reading) -> None:
        if reading.step == 2:
            raise KeyboardInterrupt

    spec = small_spec(epochs=3, signals=[signal])
    with pytest.raises(KeyboardInterrupt):
        train(spec, tmp_path / "cut", progress=cut)
    assert numbers(train(spec, tmp_path / "cut").readings) == numbers(run.readings)


def test_training_samples_are_the_ones_at_their_places() -> None:
    rows = X + 1
    known = TrainingSet(Y, samples=lambda places: rows[places])
    signal = ProbeSets(sizes=[5], seeds=1, origins=["training"])
    signal.start(context_of(network(), X, 3, training_set=known))
    (inputs, labels), *_ = signal._sets.values()
    generator = torch.Generator().manual_seed(0)
    places = torch.randperm(40, generator=generator)[:5]
    assert torch.equal(inputs, rows[places])
    assert torch.equal(labels, torch.randint(3, (5,), generator=generator))


def test_inputs_it_cannot_draw_from_are_named() -> None:
    with pytest.raises(InputError, match="origins"):
        ProbeSets(origins=["elsewhere"])
    with pytest.raises(InputError, match="sizes"):
        ProbeSets(sizes=[0])
    context = context_of(network(), X, 3)  # without a holdout and a training set
    with pytest.raises(InputError, match="fixed holdout"):
        ProbeSets().start(context)
    with pytest.raises(InputError, match="runs of a spec"):
        ProbeSets(origins=["training"]).start(context)


def test_sets_larger_than_the_holdout_are_left_out() -> None:
    assert set(trained([ProbeSets(sizes=[40, 41], seeds=1)], X)[0].metrics) == {"zeta_holdout_40_0"}
