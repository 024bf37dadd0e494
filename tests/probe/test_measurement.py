import copy
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

import rote
from rote.errors import InputError
from rote.probe import Probe
from rote.probe.policy import StepRule
from rote.snapshot import verify_unchanged
from tests.cases import CLASSES, MODELS, OPTIMIZERS, build_case, images
from tests.oracle import oracle_losses

X = images(6, seed=9)
Y = torch.tensor([0, 1, 2, 3, 0, 1])
PLAIN = rote.PlainStep(lr=0.05)
VERIFIED = rote.ProbePolicy(plain=PLAIN, verify=True)


def warm(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Two training steps, so that the optimizer has a history."""

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(model(images(6)), Y)
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize("model_name", ["dropout", "cnn_batch_norm", "outside_optimizer"])
def test_every_rule_of_one_backward_pass_equals_the_oracle(
    model_name: str, optimizer_name: str
) -> None:
    model, optimizer = build_case(model_name, optimizer_name)
    warm(model, optimizer)
    for policy in (VERIFIED, replace(VERIFIED, optimizer="fresh")):
        found = Probe(model, optimizer, CLASSES, policy=policy).measure(X, Y)
        for rule in policy.rules:
            oracle_rule = 0.05 if rule is PLAIN else rule
            before, after = oracle_losses(model, optimizer, X, Y, rule=oracle_rule)
            assert found.loss_before == pytest.approx(before, rel=1e-6)
            assert found.losses_after[rule] == pytest.approx(after, rel=1e-5), rule


@pytest.mark.parametrize("optimizer_name", ["sgd_nesterov_foreach", "adam", "adagrad", "lbfgs"])
def test_rules_measured_together_give_what_each_gives_alone(optimizer_name: str) -> None:
    model, optimizer = build_case("dropout", optimizer_name)
    warm(model, optimizer)

    def measure(first: StepRule, plain: rote.PlainStep | None) -> dict[StepRule, float]:
        policy = rote.ProbePolicy(optimizer=first, plain=plain)
        return Probe(model, optimizer, CLASSES, policy=policy).measure(X, Y).losses_after

    other = rote.PlainStep(lr=0.1)
    rules: list[StepRule] = ["live", "fresh", other]
    alone = {rule: measure(rule, None)[rule] for rule in (*rules, PLAIN)}
    for rule in rules:
        assert measure(rule, PLAIN) == {rule: alone[rule], PLAIN: alone[PLAIN]}
    assert len(set(alone.values())) == 4


def test_a_live_probe_is_two_forwards_and_one_backward() -> None:
    model, optimizer = build_case("mlp", "adam")
    calls: SimpleQueue[str] = SimpleQueue()  # a list would be put back
    model.register_forward_hook(lambda *_: calls.put("forward"))
    model[-1].register_full_backward_hook(lambda *_: calls.put("backward"))
    Probe(model, optimizer, CLASSES, policy=rote.ProbePolicy(plain=None)).measure(X, Y)
    assert [calls.get() for _ in range(calls.qsize())] == ["forward", "backward", "forward"]
    Probe(model, optimizer, CLASSES).measure(X, Y)
    assert [calls.get() for _ in range(calls.qsize())] == [
        "forward",
        "backward",
        "forward",
        "forward",
    ]


def test_state_that_the_step_creates_is_removed() -> None:
    model, optimizer = build_case("mlp", "adam")
    Probe(model, optimizer, CLASSES).measure(X, Y)
    assert len(optimizer.state) == 0


def test_dropout_masks_are_the_same_unless_asked_otherwise() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, CLASSES))
    still = torch.optim.SGD(model.parameters(), lr=1e-12)
    same = Probe(model, still, CLASSES).measure(X, Y)
    policy = rote.ProbePolicy(same_masks=False)
    other = Probe(model, still, CLASSES, policy=policy).measure(X, Y)
    assert same.losses_after["live"] == pytest.approx(same.loss_before, abs=1e-6)
    assert abs(other.losses_after["live"] - other.loss_before) > 1e-3


def test_frozen_batch_norm_stays_frozen_in_train_mode() -> None:
    model, optimizer = build_case("cnn_batch_norm", "sgd")
    model[1].eval()  # type: ignore[operator]
    found = Probe(model, optimizer, CLASSES).measure(X, Y)
    frozen = model.training and not model[1].training
    assert frozen
    assert found.loss_before == pytest.approx(cross_entropy(model(X), Y).item())


def test_eval_mode_uses_running_statistics() -> None:
    model, optimizer = build_case("cnn_batch_norm", "sgd")
    found = Probe(model, optimizer, CLASSES, policy=rote.ProbePolicy(mode="eval")).measure(X, Y)
    twin = copy.deepcopy(model).eval()
    assert found.loss_before == pytest.approx(cross_entropy(twin(X), Y).item())
    assert model.training


@pytest.mark.parametrize("cached", [True, False])
def test_under_autocast_the_stepped_weights_are_seen(cached: bool) -> None:
    model, optimizer = build_case("mlp", "sgd")
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=cached):
        model(X)  # fills the caller's cache of bfloat16 weights
        found = Probe(model, optimizer, CLASSES, policy=VERIFIED).measure(X, Y)
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            before, after = oracle_losses(model, optimizer, X, Y)
    assert found.losses_after["live"] < found.loss_before
    assert (found.loss_before, found.losses_after["live"]) == pytest.approx((before, after))
    full = Probe(model, optimizer, CLASSES).measure(X, Y)
    assert full.loss_before != found.loss_before


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_it_works_inside_evaluation_blocks(context: Callable[[], Any]) -> None:
    model, optimizer = build_case("cnn_batch_norm", "adam")
    expected = Probe(model, optimizer, CLASSES).measure(X, Y)
    with context():
        tracker = rote.track(model, optimizer, inputs=X.clone(), labels=Y, num_classes=CLASSES)
        reading = tracker.probe()
    assert reading is not None
    assert reading.loss_after == expected.losses_after["live"]
    model(X).sum().backward()
    assert not any(p.is_inference() for p in [*model.parameters(), *model.buffers()])


def test_hooks_of_the_optimizer_stay_silent() -> None:
    model, optimizer = build_case("mlp", "sgd_momentum")
    fired: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: fired.append("pre"))
    optimizer.register_step_post_hook(lambda *_: fired.append("post"))
    handles = [
        register_optimizer_step_pre_hook(lambda *_: fired.append("global pre")),
        register_optimizer_step_post_hook(lambda *_: fired.append("global post")),
    ]
    try:
        Probe(model, optimizer, CLASSES, policy=VERIFIED).measure(X, Y)
        assert fired == []
        warm(model, optimizer)
        assert fired == ["global pre", "pre", "post", "global post"] * 2
    finally:
        for handle in handles:
            handle.remove()


def test_schedulers_do_not_notice_the_step() -> None:
    model, optimizer = build_case("mlp", "sgd")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    Probe(model, optimizer, CLASSES, policy=VERIFIED).measure(X, Y)
    # torch warns when a scheduler steps before its optimizer: the probe's step must not count.
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()


def test_optimizer_that_steps_in_backward_is_not_triggered() -> None:
    model, optimizer = build_case("mlp", "sgd")
    fired: list[Tensor] = []
    weight = model[1].weight  # type: ignore[union-attr]
    weight.register_post_accumulate_grad_hook(fired.append)
    Probe(model, optimizer, CLASSES, policy=VERIFIED).measure(X, Y)
    assert fired == []
    cross_entropy(model(X), Y).backward()
    assert len(fired) == 1


def test_gradients_of_a_learnable_loss_survive() -> None:
    model, optimizer = build_case("mlp", "sgd")
    temperature = nn.Parameter(torch.tensor(2.0))
    temperature.grad = torch.tensor(5.0)
    gradient = temperature.grad

    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(output / temperature, labels)

    Probe(model, optimizer, CLASSES, loss_fn=loss_fn).measure(X, Y)
    assert temperature.grad is gradient
    assert gradient.item() == 5.0


def test_a_loss_module_is_preserved_too() -> None:
    class CountingLoss(nn.CrossEntropyLoss):
        calls = 0

        def forward(self, output: Tensor, labels: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(output, labels)

    model, optimizer = build_case("mlp", "sgd")
    loss = CountingLoss()
    Probe(model, optimizer, CLASSES, loss_fn=loss).measure(X, Y)
    assert loss.calls == 0


def test_parameters_that_a_forward_pass_changes_are_restored() -> None:
    model = nn.Sequential(nn.Embedding(5, 3, max_norm=0.1), nn.Flatten(), nn.Linear(6, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.tensor([[0, 1], [2, 3], [4, 0]])
    with verify_unchanged(model, optimizer):
        Probe(model, optimizer, CLASSES).measure(tokens, Y[:3], holdout=tokens)


def test_wrappers_are_looked_through() -> None:
    model, optimizer = build_case("mlp", "sgd")
    expected = Probe(model, optimizer, CLASSES).measure(X, Y)
    compiled = torch.compile(model, backend="eager")
    parallel = nn.DataParallel(model)
    for wrapper in (compiled, parallel):
        assert Probe(wrapper, optimizer, CLASSES).measure(X, Y) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["forward", "loss", "backward", "step"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_errors_anywhere_leave_no_trace(place: str, error: type[BaseException]) -> None:
    class Explode(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            if armed and place == "backward":
                raise error("boom")
            return gradients[0]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = MODELS["cnn_batch_norm"]()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = Explode.apply(self.inner(x))
            if armed and place == "forward":
                raise error("boom")
            return out

    class Optimizer(torch.optim.Adam):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step()
            if armed and place == "step":
                raise error("boom")

    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        if armed and place == "loss":
            raise error("boom")
        return cross_entropy(output, labels)

    armed = False
    model = Model()
    optimizer = Optimizer(model.parameters())
    warm(model, optimizer)
    tracker = rote.track(model, optimizer, inputs=X, labels=Y, num_classes=CLASSES, loss_fn=loss_fn)
    first = tracker.probe()
    armed = True
    with pytest.raises(error, match="boom"), verify_unchanged(model, optimizer):
        tracker.probe()
    armed = False
    assert len(tracker.readings) == 1
    again = tracker.probe()
    assert first is not None
    assert again is not None
    assert (again.step, again.drop) == (2, first.drop)


class Keywords(nn.Module):
    """Takes keywords and returns an object, as Hugging Face models do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, CLASSES)

    def forward(self, *, pixels: Tensor, shift: Tensor, scale: float = 1.0) -> SimpleNamespace:
        return SimpleNamespace(logits=scale * self.body(pixels.flatten(1)) + shift, loss=None)


class Arguments(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, CLASSES)

    def forward(self, pixels: Tensor, extra: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"logits": self.body(pixels.flatten(1)) + extra["shift"]}


@pytest.mark.parametrize("kind", ["mapping", "tuple", "callable"])
def test_all_kinds_of_inputs_and_outputs_give_the_same_reading(kind: str) -> None:
    shift = torch.arange(6.0)[:, None]
    torch.manual_seed(0)
    plain = nn.Linear(64, CLASSES)
    expected = cross_entropy(plain(X.flatten(1)) + shift, Y).item()
    torch.manual_seed(0)
    model = Arguments() if kind == "tuple" else Keywords()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mapping = {"pixels": X, "shift": shift, "scale": 1.0}
    given: Any = {"mapping": mapping, "tuple": (X, {"shift": shift}), "callable": lambda: mapping}
    tracker = rote.track(model, optimizer, inputs=given[kind], labels=Y, num_classes=CLASSES)
    reading = tracker.probe()
    assert reading is not None
    assert reading.loss_before == pytest.approx(expected)


def test_multi_label_uses_binary_cross_entropy() -> None:
    model, optimizer = build_case("mlp", "sgd")
    labels = rote.labels.MultiLabel(6, CLASSES, probability=0.4)
    tracker = rote.track(model, optimizer, inputs=X, labels=labels, num_classes=CLASSES)
    reading = tracker.probe()
    drawn = labels(torch.Generator().manual_seed(0))
    assert reading is not None
    assert torch.equal(tracker.batch.labels, drawn)
    expected = binary_cross_entropy_with_logits(model(X), drawn).item()
    assert reading.loss_before == pytest.approx(expected)


class Tokens(nn.Module):
    def __init__(self, *, last: bool) -> None:
        super().__init__()
        self.body, self.last = nn.Linear(8, CLASSES), last

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x.squeeze(1))
        return out if self.last else out.movedim(-1, 1)


@pytest.mark.parametrize("last", [True, False])
def test_token_labels_skip_the_ignored(last: bool) -> None:
    model = Tokens(last=last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    template = torch.zeros(12, 8)
    template[:, 5:] = rote.labels.IGNORE_INDEX
    tracker = rote.track(
        model,
        optimizer,
        inputs=images(12),
        labels=rote.labels.PerToken(template, CLASSES),
        given_labels=template.long(),
        num_classes=CLASSES,
        policy=rote.ProbePolicy(batch=6),
    )
    reading = tracker.probe()
    assert reading is not None
    flat = model.body(tracker.batch.inputs[:, 0, :5]).flatten(0, 1)  # type: ignore[call-overload]
    expected = cross_entropy(flat, tracker.batch.labels[:, :5].flatten())
    assert reading.loss_before == pytest.approx(expected.item())
    assert reading.predictions is not None
    assert reading.predictions.shape == (12, 8)
    correct = (reading.predictions[:, :5] == 0).mean()
    assert reading.validation_accuracy == pytest.approx(correct)


def test_a_single_logit_with_a_loss_of_its_own() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(output, labels.float())

    given = torch.tensor([0, 1] * 6)
    tracker = rote.track(
        model, optimizer, inputs=images(12), given_labels=given, num_classes=2, loss_fn=loss_fn
    )
    reading = tracker.probe()
    assert reading is not None
    predicted = (model(images(12)) > 0).long()
    assert reading.validation_accuracy == pytest.approx((predicted == given).float().mean().item())


def test_a_constant_loss_is_refused() -> None:
    model, optimizer = build_case("mlp", "sgd")
    probe = Probe(model, optimizer, CLASSES, loss_fn=lambda o, y: cross_entropy(o.detach(), y))
    with pytest.raises(InputError, match="not depend on parameters that require gradients"):
        probe.measure(X, Y)


def test_a_fresh_step_needs_an_optimizer_that_can_be_rebuilt() -> None:
    class Odd(torch.optim.SGD):
        def __init__(self, params: Any, secret: object) -> None:
            super().__init__(params, lr=0.1)

    model = nn.Linear(2, CLASSES)
    policy = rote.ProbePolicy(optimizer="fresh")
    probe = Probe(model, Odd(model.parameters(), object()), CLASSES, policy=policy)
    with pytest.raises(InputError, match="cannot be built from its own defaults"):
        probe.measure(torch.ones(2, 2), Y[:2])
