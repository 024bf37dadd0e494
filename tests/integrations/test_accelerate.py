import copy
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InputError
from rote.probe import unwrap_optimizer
from tests.oracle import oracle_losses

pytestmark = pytest.mark.slow

accelerate = pytest.importorskip("accelerate", reason="needs rote[huggingface]")

X, Y = torch.randn(12, 5, generator=torch.Generator().manual_seed(1)), torch.arange(12) % 3


@pytest.fixture(autouse=True)
def _no_earlier_accelerator() -> Iterator[None]:
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    yield
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


class InBf16(nn.Module):
    """What Accelerate makes of a model, for the oracle: without a cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inside = model

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            logits: Tensor = self.inside(x)
        return logits.float()


def prepared(precision: str = "no", parts: int = 1) -> tuple[Any, Any, Any, nn.Module]:
    # Shared by all accelerators of a process, also by those of the Trainers of other tests.
    accelerate.state.GradientState._reset_state()
    accelerate.state.AcceleratorState._reset_state()
    accelerator = accelerate.Accelerator(
        cpu=True, mixed_precision=precision, gradient_accumulation_steps=parts
    )
    torch.manual_seed(0)
    bare = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(bare.parameters(), lr=0.05)
    model, optimizer = accelerator.prepare(bare, optimizer)
    return accelerator, model, optimizer, bare


def step(accelerator: Any, model: Any, optimizer: Any) -> None:
    with accelerator.accumulate(model):
        accelerator.backward(cross_entropy(model(X), Y))
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside_autocast"])
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_prepared_models_read_as_the_oracle_says(precision: str, inside: bool) -> None:
    accelerator, model, optimizer, bare = prepared(precision)
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3)
    for _ in range(3):
        step(accelerator, model, optimizer)
        with accelerator.autocast() if inside else nullcontext():
            reading = tracker.probe()
        taken = {key: vars(bare).pop(key, None) for key in ("forward", "_original_forward")}
        twin = InBf16(bare) if precision == "bf16" else bare
        labels = tracker.batch.labels
        before, after = oracle_losses(twin, optimizer.optimizer, X, labels)
        _, plain = oracle_losses(twin, optimizer.optimizer, X, labels, rule=0.01)
        vars(bare).update({key: value for key, value in taken.items() if value is not None})
        assert reading is not None
        assert (reading.loss_before, reading.loss_after) == (before, after)
        assert reading.loss_after_plain == plain
        assert len({before, after, plain}) == 3


def test_a_model_with_an_autocast_of_its_own_leaves_nothing_in_the_callers_cache() -> None:
    accelerator, model, optimizer, _ = prepared("bf16")
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3)
    model.eval()
    with accelerator.autocast(), torch.no_grad():
        before = model(X)
        tracker.probe()
        assert torch.equal(model(X), before)


def test_the_step_is_taken_also_between_synchronizations() -> None:
    accelerator, model, optimizer, bare = prepared(parts=4)
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3)
    step(accelerator, model, optimizer)
    assert not accelerator.sync_gradients
    gradients = [parameter.grad.clone() for parameter in bare.parameters()]
    reading = tracker.probe()
    before, after = oracle_losses(bare, optimizer.optimizer, X, tracker.batch.labels)
    assert reading is not None
    assert (reading.loss_before, reading.loss_after) == (before, after)
    assert before != after
    held = [parameter.grad for parameter in bare.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(gradients, held, strict=True))
    found = rote.resistance(model, optimizer, X[0], int(Y[0]), max_steps=200)
    assert found.steps is not None


def test_only_the_wrapper_of_accelerate_is_taken_off() -> None:
    _, _, optimizer, bare = prepared()

    class Lookahead(torch.optim.SGD):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            super().__init__(bare.parameters(), lr=0.1)
            self.optimizer = inner

    outer = Lookahead(optimizer.optimizer)
    assert unwrap_optimizer(outer) is outer
    assert unwrap_optimizer(optimizer) is optimizer.optimizer
    assert unwrap_optimizer(optimizer.optimizer) is optimizer.optimizer


def test_the_tracker_is_part_of_accelerates_checkpoints(tmp_path: Path) -> None:
    accelerator, model, optimizer, bare = prepared()
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3)
    accelerator.register_for_checkpointing(tracker)
    for _ in range(2):
        step(accelerator, model, optimizer)
        tracker.probe(train_accuracy=0.5)
    accelerator.save_state(str(tmp_path))
    step(accelerator, model, optimizer)
    tracker.probe(train_accuracy=0.5)
    expected = [(r.step, r.drop, r.susceptibility) for r in tracker.readings]
    weights = copy.deepcopy(bare.state_dict())
    accelerator.load_state(str(tmp_path))
    assert len(tracker.readings) == 2
    step(accelerator, model, optimizer)
    tracker.probe(train_accuracy=0.5)
    assert [(r.step, r.drop, r.susceptibility) for r in tracker.readings] == expected
    assert all(torch.equal(weights[key], value) for key, value in bare.state_dict().items())


def test_an_offloaded_base_is_probed_like_one_in_memory() -> None:
    x, y = torch.randn(12, 8, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3

    def train(*, offloaded: bool, probed: bool) -> tuple[Tensor, list[float]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
        model[0].requires_grad_(False)
        if offloaded:
            accelerate.cpu_offload(model[0], execution_device=torch.device("cpu"))
            assert model[0].weight.device.type == "meta"  # type: ignore[union-attr]
        optimizer = torch.optim.Adam(model[2].parameters(), lr=0.01)
        drops, policy = [], rote.ProbePolicy(verify=True)
        if probed:
            tracker = rote.track(
                model, optimizer, inputs=x, num_classes=3, given_labels=y, policy=policy
            )
        for _ in range(3):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            if probed:
                reading = tracker.probe()
                assert reading is not None
                drops.append(reading.drop)
        return model(x).detach(), drops

    bare, _ = train(offloaded=True, probed=False)
    found, drops = train(offloaded=True, probed=True)
    assert torch.equal(found, bare)
    assert drops == train(offloaded=False, probed=True)[1]


def test_offloaded_trained_parameters_are_refused_with_the_reason() -> None:
    model = nn.Linear(8, 3)
    accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(InputError, match="cpu_offload"):
        rote.track(model, optimizer, inputs=torch.randn(4, 8), num_classes=3)
