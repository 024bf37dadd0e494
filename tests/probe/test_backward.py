"""Loops that differentiate in their own way: Fabric, AdaHessian."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import TrialError

CLASSES = 3
X = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(9) % CLASSES


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, CLASSES))


class AdaHessian(torch.optim.Optimizer):
    """Divides gradients by a running mean of Hutchinson's estimate of the Hessian's diagonal."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})
        self.generator = torch.Generator().manual_seed(0)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            signs = [
                torch.randint(0, 2, p.shape, generator=self.generator) * 2.0 - 1 for p in parameters
            ]
            gradients = [p.grad for p in parameters]
            products = torch.autograd.grad(gradients, parameters, grad_outputs=signs)
            with torch.no_grad():
                for p, sign, product in zip(parameters, signs, products, strict=True):
                    mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                    mean.mul_(0.9).add_((sign * product).abs(), alpha=0.1)
                    assert p.grad is not None
                    p.add_(p.grad / (mean + 0.1), alpha=-group["lr"])


def with_graph(loss: Tensor) -> None:
    loss.backward(create_graph=True)  # type: ignore[no-untyped-call]


def step(model: nn.Module, optimizer: Any) -> float:
    for parameter in model.parameters():
        parameter.grad = None
    loss = cross_entropy(model(X), Y)
    with_graph(loss)
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad = None  # or the graph lives on
    return loss.item()


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_an_optimizer_that_differentiates_gradients_is_probed() -> None:
    found = []
    for probed in (False, True):
        model = network()
        optimizer = AdaHessian(model.parameters())
        tracker = None
        if probed:
            tracker = rote.track(
                model, optimizer, inputs=X, num_classes=CLASSES, labels=Y, backward=with_graph
            )
        for _ in range(4):
            step(model, optimizer)
            if tracker is None:
                continue
            twin, twins = copy.deepcopy((model, optimizer))
            twins.generator = optimizer.generator.clone_state()
            before = step(twin, twins)
            reading = tracker.probe()
            assert reading is not None
            with torch.no_grad():
                after = cross_entropy(twin(X), Y).item()
            assert (reading.loss_before, reading.loss_after) == (before, after)
        found.append([p.tolist() for p in model.parameters()])
    assert found[0] == found[1]


def test_missing_backward_is_explained() -> None:
    model = network()
    with pytest.raises(TrialError, match=r"pass `backward=lambda loss: loss.backward\(create_g"):
        rote.track(model, AdaHessian(model.parameters()), inputs=X, num_classes=CLASSES)


def fabric(precision: Any) -> Any:
    lightning = pytest.importorskip("lightning.fabric", reason="needs rote[lightning]")
    return lightning.Fabric(accelerator="cpu", devices=1, precision=precision)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_fabric_trains_the_same_with_probes(precision: str) -> None:
    lightning = fabric(precision)
    found = []
    for probed in (False, True):
        model, optimizer = _set_up(lightning)
        tracker = None
        if probed:
            tracker = rote.track(
                model,
                optimizer,
                inputs=X,
                num_classes=CLASSES,
                labels=Y,
                backward=lightning.backward,
            )
        for _ in range(4):
            optimizer.zero_grad()
            lightning.backward(cross_entropy(model(X), Y))
            optimizer.step()
            if tracker is not None:
                assert _reads_as_a_copy(tracker, model, optimizer, precision)
        found.append([p.tolist() for p in model.parameters()])
    assert found[0] == found[1]


def _set_up(lightning: Any) -> Any:
    bare = network()
    return lightning.setup(bare, torch.optim.AdamW(bare.parameters(), lr=0.1))


def _reads_as_a_copy(tracker: rote.Tracker, model: Any, optimizer: Any, precision: str) -> bool:
    """Compare with a step of deep copies of what is inside Fabric's wrappers."""
    twin, stepper = copy.deepcopy((model.module, optimizer.optimizer))

    def loss() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
            logits = twin(X)
        return cross_entropy(logits.float(), Y)

    stepper.zero_grad()
    before = loss()
    before.backward()  # type: ignore[no-untyped-call]
    stepper.step()
    reading = tracker.probe()
    assert reading is not None
    with torch.no_grad():
        after = loss()
    return (reading.loss_before, reading.loss_after) == (before.item(), after.item())


def test_fabric_in_mixed_precision_says_what_it_needs() -> None:
    model, optimizer = _set_up(fabric("bf16-mixed"))
    with pytest.raises(TrialError, match=r"Pass `backward=fabric.backward` to rote.track"):
        rote.track(model, optimizer, inputs=X, num_classes=CLASSES)
