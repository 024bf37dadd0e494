"""Inputs without one sample axis: graphs, time-first batches, sparse tensors, objects."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InputError
from rote.probe import copy_inputs, count_samples, hash_content, take

CLASSES, NODES = 3, 20
GENERATOR = torch.Generator().manual_seed(0)
FEATURES = torch.randn(NODES, 5, generator=GENERATOR)
EDGES = torch.randint(NODES, (2, 60), generator=GENERATOR)
Y = torch.arange(8) % CLASSES
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch calls them a prototype
    NESTED = torch.nested.nested_tensor([torch.ones(2, 5), torch.ones(3, 5)])


class Graph(nn.Module):
    """One convolution over the edges of a graph, with batch statistics over all its nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(5, CLASSES), nn.BatchNorm1d(5)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        summed = x.index_add(0, edges[1], x[edges[0]])
        logits: Tensor = self.linear(self.norm(summed))
        return logits


class Bundle:
    """An object that carries tensors, as PyG's ``Data``."""

    def __init__(self, **tensors: Tensor) -> None:
        self._store = dict(tensors)

    def to_dict(self) -> dict[str, Tensor]:
        return dict(self._store)

    def clone(self) -> "Bundle":
        return Bundle(**{name: tensor.clone() for name, tensor in self._store.items()})

    def apply(self, change: Any) -> "Bundle":
        self._store = {name: change(tensor) for name, tensor in self._store.items()}
        return self


class OfBundle(Graph):
    def forward(self, data: Bundle) -> Tensor:  # type: ignore[override]
        found = data.to_dict()
        return super().forward(found["x"], found["edge_index"])


class Recurrent(nn.Module):
    """Time first: (time, batch, features), and a hidden state of (layers, batch, features)."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(5, 4), nn.Linear(4, CLASSES)

    def forward(
        self, x: Tensor, state: Tensor | None = None, scale: Tensor | None = None
    ) -> Tensor:
        _, last = self.rnn(x, state)
        logits: Tensor = self.head(last[0])
        return logits if scale is None else logits * scale


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, CLASSES, generator=torch.Generator()))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


def oracle(model: nn.Module, optimizer: Any, forward: Any) -> tuple[float, float]:
    """Losses around one step of deep copies; ``forward`` gives the logits of S̃."""
    twin, stepper = copy.deepcopy((model, optimizer))
    start = copy.deepcopy(twin.state_dict())
    loss = cross_entropy(forward(twin), Y)
    stepper.zero_grad()
    loss.backward()
    twin.load_state_dict(
        {**twin.state_dict(), **{k: v for k, v in start.items() if "running" in k}}
    )
    stepper.step()
    with torch.no_grad():
        return loss.item(), cross_entropy(forward(twin), Y).item()


NODES_OF_S = torch.tensor([3, 1, 19, 7, 8, 2, 11, 5])
TIME_FIRST = torch.randn(6, 8, 5, generator=GENERATOR)
STATES = torch.randn(1, 8, 4, generator=GENERATOR)
ROWS = torch.randn(8, 5, generator=GENERATOR).relu()
GRAPH = Bundle(x=FEATURES, edge_index=EDGES)
CASES: dict[str, tuple[type[nn.Module], Any, Any]] = {
    "graph": (
        Graph,
        rote.Samples((FEATURES, EDGES), axis=None, rows=NODES_OF_S),
        lambda m: m(FEATURES, EDGES)[NODES_OF_S],
    ),
    "first nodes of a graph": (
        Graph,
        rote.Samples({"x": FEATURES, "edges": EDGES}, axis=None, rows=8),
        lambda m: m(FEATURES, EDGES)[:8],
    ),
    "object": (
        OfBundle,
        rote.Samples(GRAPH, axis=None, rows=NODES_OF_S),
        lambda m: m(GRAPH)[NODES_OF_S],
    ),
    "time first": (Recurrent, rote.Samples(TIME_FIRST, axis=1), lambda m: m(TIME_FIRST)),
    "hidden states": (
        Recurrent,
        rote.Samples((TIME_FIRST, STATES), axis=(1, -2)),
        lambda m: m(TIME_FIRST, STATES),
    ),
    "one for all": (
        Recurrent,
        rote.Samples({"x": TIME_FIRST, "scale": torch.ones(CLASSES) * 2}, axis={"x": 1}),
        lambda m: m(TIME_FIRST, scale=torch.ones(CLASSES) * 2),
    ),
    "sparse coordinates": (Sparse, ROWS.to_sparse(), lambda m: m(ROWS.to_sparse())),
    "sparse rows": (Sparse, Tensor.to_sparse_csr, lambda m: m(ROWS.to_sparse_csr())),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("name", CASES)
def test_readings_equal_those_of_deep_copies(name: str) -> None:
    kind, inputs, forward = CASES[name]
    if inputs is Tensor.to_sparse_csr:  # which warns, and not while tests are collected
        inputs = ROWS.to_sparse_csr()
    torch.manual_seed(1)
    model = kind()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    before = copy.deepcopy(model.state_dict())
    tracker = rote.track(
        model, optimizer, inputs=inputs, num_classes=CLASSES, labels=Y, given_labels=Y
    )
    expected = oracle(model, optimizer, forward)
    reading = tracker.probe()
    assert reading is not None
    assert (reading.loss_before, reading.loss_after) == expected
    assert reading.predictions is not None
    model.eval()
    assert reading.predictions.tolist() == forward(model).argmax(1).tolist()
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_a_holdout_of_nodes_is_predicted_in_one_pass() -> None:
    model = Graph()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = rote.Samples((FEATURES, EDGES), axis=None, rows=NODES)
    policy = rote.ProbePolicy(batch=4, plain=None)
    tracker = rote.track(model, optimizer, inputs=inputs, num_classes=CLASSES, policy=policy)
    assert tracker.batch.labels.shape == (4,)

    counted: list[int] = []
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, *_: counted.append(1) if module is model else None
    )
    reading = tracker.probe()
    hook.remove()
    assert reading is not None
    assert reading.predictions is not None
    assert reading.predictions.shape == (NODES,)
    assert len(counted) == 3


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("chosen", [slice(2, 5), torch.tensor([4, 0])])
def test_sparse_samples_are_cut_as_dense_ones(layout: torch.layout, chosen: Any) -> None:
    whole = ROWS.to_sparse(layout=layout)
    found = take(whole, chosen)
    assert isinstance(found, Tensor)
    assert found.layout == layout
    assert torch.equal(found.to_dense(), ROWS[chosen])
    assert count_samples(found) == len(ROWS[chosen])
    assert hash_content(whole) == hash_content(copy_inputs(whole)) != hash_content(found)


def test_a_copy_of_an_object_is_its_own() -> None:
    data = Bundle(x=FEATURES.clone(), edge_index=EDGES)
    samples = rote.Samples(data, axis=None, rows=5)
    kept = copy_inputs(samples)
    before = hash_content(kept)
    data.to_dict()["x"].zero_()
    assert hash_content(kept) == before != hash_content(samples)


def test_rows_may_be_a_mask_or_any_indices() -> None:
    mask = torch.arange(NODES) % 3 == 1
    chosen = mask.nonzero().reshape(-1).tolist()
    for rows in (mask, mask.numpy(), mask.tolist(), chosen, range(1, NODES, 3), np.array(chosen)):
        samples = rote.Samples((FEATURES, EDGES), axis=None, rows=rows)
        assert samples.rows.tolist() == chosen
        assert count_samples(samples) == len(chosen)


def test_rows_that_are_not_there_are_named() -> None:
    model = Graph()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = rote.Samples((FEATURES, EDGES), axis=None, rows=[0, NODES])
    with pytest.raises(InputError, match=f"model's {NODES} rows of logits, got 0 to {NODES}"):
        rote.track(model, optimizer, inputs=samples, num_classes=CLASSES)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rote.Samples(FEATURES, axis=None), "`rows` and axis=None"),
        (lambda: rote.Samples(FEATURES, axis=None, rows="all"), "got str"),
        (lambda: rote.Samples(FEATURES, axis=None, rows=[0.5]), "a mask of them.*got list"),
        (lambda: count_samples(NESTED), "got a nested one. Pad it"),
        (lambda: rote.Samples(FEATURES, axis=1, rows=3), "`rows` and axis=None"),
        (lambda: count_samples(rote.Samples(FEATURES, axis=2)), "to be one of its 2 axes"),
        (
            lambda: count_samples(rote.Samples((TIME_FIRST, torch.ones(8)), axis=1)),
            r"`axis` of inputs\[1\] to be one of its 1 axes.*as in axis=\(1, 0\)",
        ),
        (
            lambda: count_samples(rote.Samples((TIME_FIRST, STATES), axis=(1,))),
            r"one entry per entry of inputs \(2\), got 1",
        ),
        (
            lambda: count_samples(rote.Samples((TIME_FIRST, STATES), axis=(0, 1))),
            r"same number of samples, got inputs\[0\]: 6, inputs\[1\]: 8.*rote.Samples",
        ),
        (
            lambda: count_samples(rote.Samples(FEATURES, axis=None, rows=0)),
            "at least one sample, got 0",
        ),
    ],
)
def test_mismatched_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


GLOBAL_DRAWS = np.random.default_rng(5)


class Augmented(torch.utils.data.Dataset[Tensor]):
    """Samples augmented by a global generator, or by one in a closure."""

    def __init__(self, augment: Callable[[Tensor], Tensor] | None = None) -> None:
        self.augment = augment

    def __len__(self) -> int:
        return 5000

    def __getitem__(self, index: int) -> Tensor:
        sample = torch.full((3,), float(index))
        return sample + GLOBAL_DRAWS.random() if self.augment is None else self.augment(sample)


def test_generators_that_a_dataset_names_or_closes_over_do_not_move() -> None:
    draws = torch.Generator().manual_seed(1)

    def augment(sample: Tensor) -> Tensor:
        return sample + torch.rand((), generator=draws)

    def collate(samples: list[Tensor]) -> Tensor:
        return torch.stack(samples) + torch.rand((), generator=draws)

    before = str(GLOBAL_DRAWS.bit_generator.state), draws.get_state().tolist()
    for dataset in (Augmented(), Augmented(augment)):
        loader = torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=collate)
        drawn = rote.probe.SampleSource(loader).draw(6, seed=0)
        assert len(drawn) == 6
    assert (str(GLOBAL_DRAWS.bit_generator.state), draws.get_state().tolist()) == before


def test_a_loss_of_three_arguments_gets_the_inputs_inside_samples() -> None:
    seen: list[object] = []

    def loss(model: torch.nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        seen.append(inputs)
        return torch.nn.functional.cross_entropy(model(inputs).mean(0), labels)

    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = rote.Samples(torch.randn(7, 5, 3), axis=1)  # time first
    policy = rote.ProbePolicy(record_predictions=False)
    rote.track(model, optimizer, inputs=samples, num_classes=2, loss_fn=loss, policy=policy)
    assert all(isinstance(entry, Tensor) for entry in seen)
