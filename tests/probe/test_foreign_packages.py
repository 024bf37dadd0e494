"""Other people's packages as they are installed: Opacus, PyTorch Geometric, pytorch_optimizer."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InputError, TrialError

CLASSES, NODES = 3, 24
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(12, 4, generator=GENERATOR)
Y = torch.arange(12) % CLASSES


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, CLASSES))


@pytest.mark.filterwarnings("ignore::UserWarning:opacus", "ignore:Secure RNG turned off")
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
class TestOpacus:
    """A probe would spend privacy."""

    @staticmethod
    def private(model: nn.Module) -> tuple[nn.Module, Any, Any]:
        opacus = pytest.importorskip("opacus", reason="opacus is not installed")
        found: tuple[nn.Module, Any, Any] = opacus.PrivacyEngine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(X, Y), batch_size=4
            ),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        return found

    @pytest.mark.parametrize("wrapped", ["model", "optimizer", "both"])
    def test_unsupported_package_is_refused_with_the_reason(self, wrapped: str) -> None:
        bare = network()
        model, optimizer, _ = self.private(bare)
        before = copy.deepcopy(bare.state_dict())
        if wrapped == "model":
            optimizer = optimizer.original_optimizer
        if wrapped == "optimizer":
            model = network()
            optimizer.original_optimizer.param_groups[0]["params"] = list(model.parameters())
        with pytest.raises(InputError, match=r"of Opacus.*spend privacy.*bare network"):
            rote.track(model, optimizer, inputs=X, num_classes=CLASSES)
        assert all(torch.equal(before[name], value) for name, value in bare.state_dict().items())
        assert all(getattr(p, "grad_sample", None) is None for p in bare.parameters())

    def test_the_advised_way_leaves_private_training_as_it_is(self) -> None:
        found, drops = [], []
        for probed in (False, True):
            model, optimizer, loader = self.private(network())
            bare = network()
            plain = torch.optim.SGD(bare.parameters(), lr=0.1)
            tracker = None
            if probed:
                tracker = rote.track(bare, plain, inputs=X, num_classes=CLASSES)
            for _ in range(3):
                for x, y in loader:
                    optimizer.zero_grad()
                    cross_entropy(model(x), y).backward()
                    optimizer.step()
                bare.load_state_dict(model._module.state_dict())  # type: ignore[union-attr,operator,arg-type]
                if tracker is not None and (reading := tracker.probe()) is not None:
                    drops.append(reading.drop)
            found.append([p.tolist() for p in model.parameters()])
        assert found[0] == found[1]
        assert len(drops) == 3
        assert all(drops)


class TestGeometric:
    """A whole graph goes in; samples are rows of what comes out."""

    @staticmethod
    def graph() -> Any:
        data = pytest.importorskip("torch_geometric.data", reason="torch_geometric: not installed")
        generator = torch.Generator().manual_seed(1)
        return data.Data(
            x=torch.randn(NODES, 5, generator=generator),
            edge_index=torch.randint(NODES, (2, 70), generator=generator),
            y=torch.randint(CLASSES, (NODES,), generator=generator),
        )

    @staticmethod
    def network(*, cached: bool) -> nn.Module:
        layers = pytest.importorskip("torch_geometric.nn", reason="torch_geometric: not installed")

        class OfData(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = layers.GCNConv(5, 8, cached=cached)
                self.norm = layers.BatchNorm(8)
                self.second = layers.GATConv(8, CLASSES, heads=2, concat=False, dropout=0.3)

            def forward(self, data: Any) -> Tensor:
                hidden = self.norm(self.first(data.x, data.edge_index)).relu()
                logits: Tensor = self.second(hidden, data.edge_index)
                return logits

        torch.manual_seed(2)
        return OfData()

    @pytest.mark.parametrize("cached", [False, True])
    def test_nodes_are_probed_as_a_deep_copy_is_stepped(self, *, cached: bool) -> None:
        graph, rows = self.graph(), torch.arange(8)
        before, found = {key: graph[key].clone() for key in graph.keys()}, []  # noqa: SIM118
        for probed in (False, True):
            model = self.network(cached=cached)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
            tracker = None
            if probed:
                samples = rote.Samples(graph, axis=None, rows=rows)
                tracker = rote.track(
                    model, optimizer, inputs=samples, num_classes=CLASSES, labels=Y[:8]
                )
            for _ in range(4):
                optimizer.zero_grad()
                cross_entropy(model(graph)[8:], graph.y[8:]).backward()
                optimizer.step()
                if tracker is not None:
                    expected = self.stepped(model, optimizer, graph, rows)
                    reading = tracker.probe()
                    assert reading is not None
                    assert (reading.loss_before, reading.loss_after) == expected
            found.append([p.tolist() for p in model.parameters()])
        assert found[0] == found[1]
        assert all(torch.equal(graph[key], value) for key, value in before.items())

    @staticmethod
    def stepped(model: nn.Module, optimizer: Any, graph: Any, rows: Tensor) -> tuple[float, float]:
        twin, stepper = copy.deepcopy((model, optimizer))
        buffers = copy.deepcopy(dict(twin.named_buffers()))

        def loss() -> Tensor:
            torch.set_rng_state(start)
            for name, buffer in twin.named_buffers():
                buffer.copy_(buffers[name])
            return cross_entropy(twin(graph)[rows], Y[:8])

        with torch.random.fork_rng(devices=[]):
            start = torch.get_rng_state()
            stepper.zero_grad()
            first = loss()
            first.backward()  # type: ignore[no-untyped-call]
            stepper.step()
            with torch.no_grad():
                return first.item(), loss().item()

    def test_a_bare_graph_must_say_what_its_samples_are(self) -> None:
        model = self.network(cached=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(InputError, match=r"of type Data .* rote\.Samples"):
            rote.track(model, optimizer, inputs=self.graph(), num_classes=CLASSES)

    def test_graphs_are_classified_from_a_loader(self) -> None:
        room = pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
        loaders = pytest.importorskip("torch_geometric.loader")

        class OfGraphs(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = room.nn.GraphConv(5, CLASSES)

            def forward(self, data: Any) -> Tensor:
                hidden = self.layer(data.x, data.edge_index)
                logits: Tensor = room.nn.global_mean_pool(hidden, data.batch)
                return logits

        torch.manual_seed(4)
        loader = loaders.DataLoader([self.graph() for _ in range(9)], batch_size=3, shuffle=True)
        model = OfGraphs()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        state = torch.get_rng_state()
        with pytest.raises(InputError, match=r"rote\.Samples\(batch, axis=None, rows=batch\.num_g"):
            rote.track(model, optimizer, inputs=loader, num_classes=CLASSES)
        tracker = rote.track(
            model,
            optimizer,
            inputs=loader,
            num_classes=CLASSES,
            take=lambda batch: rote.Samples(batch, axis=None, rows=batch.num_graphs),
        )
        reading = tracker.probe()
        assert reading is not None
        assert reading.drop > 0
        assert tracker.batch.labels.shape == (9,)
        assert torch.equal(torch.get_rng_state(), state)


def with_graph(loss: Tensor) -> None:
    loss.backward(create_graph=True)  # type: ignore[no-untyped-call]


OPTIMIZERS: dict[str, Callable[[Any, nn.Module], Any]] = {
    "AdaHessian": lambda room, m: room.AdaHessian(m.parameters(), lr=0.05),
    "ScalableShampoo": lambda room, m: room.ScalableShampoo(
        m.parameters(), start_preconditioning_step=2, preconditioning_compute_steps=1
    ),
    "Shampoo": lambda room, m: room.Shampoo(m.parameters(), lr=0.01),
    "Lookahead": lambda room, m: room.Lookahead(torch.optim.AdamW(m.parameters(), lr=0.01), k=2),
    "Ranger21": lambda room, m: room.Ranger21(m.parameters(), num_iterations=20, lr=0.01),
    "SOAP": lambda room, m: room.SOAP(m.parameters(), lr=0.01),
    "ScheduleFreeAdamW": lambda room, m: room.ScheduleFreeAdamW(m.parameters(), lr=0.01),
}


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_train_the_same_and_step_as_their_copies(name: str) -> None:
    room = pytest.importorskip("pytorch_optimizer", reason="pytorch_optimizer is not installed")
    needs_graph = name == "AdaHessian"
    found = []
    for probed in (False, True):
        model = network()
        optimizer = OPTIMIZERS[name](room, model)
        tracker = None
        if probed:
            tracker = rote.track(
                model,
                optimizer,
                inputs=X,
                num_classes=CLASSES,
                labels=Y,
                backward=with_graph if needs_graph else None,
            )
        for _ in range(6):
            step(model, optimizer, create_graph=needs_graph)
            if tracker is not None:
                twin, stepper = copied(model, optimizer)
                with torch.random.fork_rng(devices=[]):
                    before = step(twin, stepper, create_graph=needs_graph)
                with torch.no_grad():
                    after = cross_entropy(twin(X), Y).item()
                reading = tracker.probe()
                assert reading is not None
                assert (reading.loss_before, reading.loss_after) == (before, after)
        found.append([p.tolist() for p in model.parameters()])
    assert found[0] == found[1]


def copied(model: nn.Module, optimizer: Any) -> tuple[nn.Module, Any]:
    """With all attributes, of which torch's own copies of optimizers leave out most."""
    memo: dict[int, Any] = {}
    twin = copy.deepcopy(model, memo)
    stepper = object.__new__(type(optimizer))
    own = {k: v for k, v in vars(optimizer).items() if k != "step"}
    vars(stepper).update(copy.deepcopy(own, memo))
    return twin, stepper


def step(model: nn.Module, optimizer: Any, *, create_graph: bool) -> float:
    for parameter in model.parameters():
        parameter.grad = None
    loss = cross_entropy(model(X), Y)
    loss.backward(create_graph=create_graph)  # type: ignore[no-untyped-call]
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad = None
    return loss.item()


def test_adahessian_without_its_graph_says_what_it_needs() -> None:
    room = pytest.importorskip("pytorch_optimizer", reason="pytorch_optimizer is not installed")
    model = network()
    optimizer = room.AdaHessian(model.parameters())
    with pytest.raises(TrialError, match=r"pass `backward=lambda loss: loss.backward\(create_g"):
        rote.track(model, optimizer, inputs=X, num_classes=CLASSES)
