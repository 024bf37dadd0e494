"""Inputs from a dataset or a loader: the right samples, and a training that does not notice."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset

import rote
from rote.errors import InputError

CLASSES, FEATURES = 4, 6
pytestmark = pytest.mark.filterwarnings("ignore::rote.errors.DominatedMeanWarning")


class Augmented(Dataset[tuple[Tensor, int]]):
    """Every sample draws from every generator there is."""

    def __init__(self, size: int = 40) -> None:
        self.x = torch.randn(size, FEATURES, generator=torch.Generator().manual_seed(1))
        self.own = torch.Generator().manual_seed(2)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = random.random() + np.random.random() + torch.rand(1).item()
        return self.x[index] + noise + torch.rand(1, generator=self.own).item(), index % CLASSES


def as_mapping(samples: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    return {
        "label": torch.tensor([label for _, label in samples]),
        "input": torch.stack([x for x, _ in samples]),
    }


def loaders(**options: Any) -> dict[str, DataLoader[Any]]:
    seeded = torch.Generator().manual_seed(3)
    sampled = torch.Generator().manual_seed(4)
    data = Augmented()
    return {
        "shuffled": DataLoader(data, batch_size=8, shuffle=True, **options),
        "with a generator": DataLoader(
            data, batch_size=8, shuffle=True, generator=seeded, **options
        ),
        "with a sampler": DataLoader(
            data, batch_size=8, sampler=RandomSampler(data, generator=sampled), **options
        ),
    }


def network() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    model = nn.Linear(FEATURES, CLASSES)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def trained(loader: DataLoader[Any], source: Callable[[Any], Any] | None, **options: Any) -> Any:
    model, optimizer = network()
    tracker = None
    if source is not None:
        inputs = source(loader)
        tracker = rote.track(model, optimizer, inputs=inputs, num_classes=CLASSES, **options)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
        if tracker is not None:
            assert tracker.probe() is not None
    return [p.tolist() for p in model.parameters()]


@pytest.mark.parametrize("name", loaders())
@pytest.mark.parametrize("resample", [False, True])
def test_a_loader_as_inputs_changes_nothing(name: str, *, resample: bool) -> None:
    policy = rote.ProbePolicy(batch=8, resample=resample)
    bare = trained(loaders()[name], None)
    assert trained(loaders()[name], lambda loader: loader, policy=policy) == bare
    assert trained(loaders()[name], lambda loader: loader.dataset, policy=policy) == bare


def test_iterating_a_loader_changes_the_random_state() -> None:
    bare = trained(loaders()["shuffled"], None)
    assert trained(loaders()["shuffled"], lambda loader: next(iter(loader))[0]) != bare


def test_no_worker_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = loaders(num_workers=2)["shuffled"]
    monkeypatch.setattr(DataLoader, "__iter__", lambda _: pytest.fail("the loader was iterated"))
    model, optimizer = network()
    tracker = rote.track(model, optimizer, inputs=loader, num_classes=CLASSES)
    assert len(tracker.batch.labels) == 40


def test_the_samples_are_those_of_the_dataset() -> None:
    x = torch.arange(30.0)[:, None].expand(30, FEATURES).clone()
    model, optimizer = network()
    policy = rote.ProbePolicy(batch=12)

    def drawn(inputs: Any, **options: Any) -> Tensor:
        tracker = rote.track(
            model, optimizer, inputs=inputs, num_classes=CLASSES, policy=policy, **options
        )
        found = tracker.batch.inputs
        assert isinstance(found, Tensor)
        return found

    data = TensorDataset(x, torch.zeros(30).long())
    found = drawn(data)
    assert found.shape == (12, FEATURES)
    assert len(set(found[:, 0].tolist())) == 12
    assert set(found[:, 0].tolist()) <= set(range(30))
    assert torch.equal(found, drawn(DataLoader(data, batch_size=5)))  # whatever its batch size
    assert not torch.equal(found, drawn(data, seed=1))
    doubled = drawn(data, take=lambda batch: batch[0] * 2)
    assert torch.equal(doubled, found * 2)
    by_key = drawn(DataLoader(data, collate_fn=as_mapping), take=lambda batch: batch["input"])
    assert torch.equal(by_key, found)


def test_resampled_batches_continue_after_a_resume() -> None:
    def followed(saved: bool) -> list[Any]:
        model, optimizer = network()
        policy = rote.ProbePolicy(batch=8, resample=True)

        def make() -> rote.Tracker:
            return rote.track(
                model, optimizer, inputs=Augmented(), num_classes=CLASSES, policy=policy
            )

        tracker, found = make(), []
        for _ in range(4):
            reading = tracker.probe()
            assert reading is not None
            found.append(reading.drop)
            if saved:
                state, tracker = tracker.state_dict(), make()
                tracker.load_state_dict(state)
        return found

    drops = followed(saved=False)
    assert len(set(drops)) == 4
    assert followed(saved=True) == drops


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Any:
        return iter(torch.randn(9, FEATURES))


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (Stream(), {}, "cannot draw samples from Stream"),
        (DataLoader(Stream()), {}, "cannot draw samples from Stream"),
        (DataLoader(Augmented(), batch_size=None), {}, "got one with batch_size=None"),
        (Augmented(0), {}, "training set is empty"),
        (torch.zeros(9, FEATURES), {"take": len}, "`take` applies to a dataset or loader only"),
        (
            DataLoader(Augmented(), collate_fn=as_mapping),
            {"take": lambda batch: batch["image"]},
            "KeyError: 'image'. A batch is a mapping with 'label', 'input'",
        ),
        (Augmented(), {"take": "input"}, "'str' object is not callable. A batch is a list of 2"),
        (
            DataLoader(Augmented(), collate_fn=lambda s: {"image": as_mapping(s)["input"]}),
            {},
            "unexpected keyword argument 'image'. A mapping means keyword arguments",
        ),
        (iter(DataLoader(Augmented())), {}, "pass a loader or a dataset itself"),
        (
            Augmented(),
            {"given_labels": torch.zeros(40).long()},
            "`given_labels` needs samples in a known order, .* a Augmented",
        ),
    ],
)
def test_inputs_without_random_access_are_refused(inputs: Any, options: Any, message: str) -> None:
    model, optimizer = network()
    with pytest.raises(InputError, match=message):
        rote.track(model, optimizer, inputs=inputs, num_classes=CLASSES, **options)
