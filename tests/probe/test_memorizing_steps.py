import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

import rote
from rote.errors import InputError
from rote.probe.memorizing_steps import Resistance, resistance
from rote.probe.temperature_scaling import find_temperature_for_error, measure_calibration_error
from rote.snapshot import verify_unchanged
from tests.cases import CLASSES, MODELS, OPTIMIZERS, build_case, images
from tests.oracle import deep_copy

pytestmark = pytest.mark.slow

X = images(6, seed=1)
Y = torch.tensor([0, 1, 2, 3, 0, 1])
SAMPLE = images(1, seed=2)
MOST = 6


def warm(model: nn.Module, optimizer: Optimizer) -> None:
    """Two steps of training and half a gradient, so that there is something to disturb."""

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(model(X), Y)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(2):
        advance(optimizer, closure)
    closure()


def advance(optimizer: Optimizer, closure: Callable[[], Tensor]) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    else:
        closure()
        optimizer.step()


def naive(
    model: nn.Module,
    optimizer: Optimizer,
    label: int,
    *,
    x: Tensor = SAMPLE,
    mode: str = "eval",
    keep_state: bool = True,
    stepper: Callable[[nn.Module], Optimizer] | None = None,
    temperature: float = 1.0,
    max_steps: int = MOST,
) -> tuple[int | None, list[list[float]], list[float]]:
    """The loop that anybody would write, on a copy."""
    twin, steps_with = deep_copy(model, optimizer, keep_state=keep_state)
    steps_with = stepper(twin) if stepper else steps_with
    flags = {name: module.training for name, module in twin.named_modules()}
    target = torch.tensor([label])

    def closure() -> Tensor:
        steps_with.zero_grad()
        loss = cross_entropy(twin(x), target)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    rows, losses = [], []
    with torch.random.fork_rng(devices=[]):
        for taken in range(max_steps + 1):
            twin.eval()
            stateful = copy.deepcopy(dict(vars(twin)))
            logits = twin(x).detach()
            rows.append((logits.double() / temperature).softmax(1)[0].tolist())
            losses.append(cross_entropy(logits, target).item())
            if logits.argmax() == label:
                return taken, rows, losses
            if mode == "train":
                for name, module in twin.named_modules():
                    module.training = flags[name]
            elif not isinstance(steps_with, torch.optim.LBFGS):
                _rewind(twin, stateful)  # one forward pass serves prediction and gradient
            if taken < max_steps:
                advance(steps_with, closure)
    return None, rows, losses


def _rewind(twin: nn.Module, before: dict[str, Any]) -> None:
    for key in ("calls", "history", "memory"):
        if key in before:
            setattr(twin, key, before[key])
    if "seen" in before["_buffers"]:
        twin.seen = before["_buffers"]["seen"]


def unlikely(model: nn.Module) -> int:
    """The class that the model thinks of last."""
    twin = copy.deepcopy(model).eval()
    return int(twin(SAMPLE).argmin())


def agrees(found: Resistance, expected: tuple[Any, Any, Any]) -> bool:
    steps, rows, losses = expected
    assert found.steps == steps
    assert found.is_memorized == (steps is not None)
    assert found.probabilities.shape == (len(rows), CLASSES)
    np.testing.assert_allclose(found.probabilities, rows, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-4, atol=1e-6)
    return True


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize("model_name", MODELS)
def test_it_equals_the_loop_on_a_copy_and_leaves_no_trace(
    model_name: str, optimizer_name: str
) -> None:
    model, optimizer = build_case(model_name, optimizer_name)
    warm(model, optimizer)
    label = unlikely(model)
    expected = naive(model, optimizer, label)
    gradients = [parameter.grad for parameter in model.parameters()]
    with verify_unchanged(model, optimizer):
        found = resistance(model, optimizer, SAMPLE, label, max_steps=MOST)
    assert agrees(found, expected)
    after = [parameter.grad for parameter in model.parameters()]
    assert all(a is b for a, b in zip(after, gradients, strict=True))


@pytest.mark.parametrize("optimizer_name", ["sgd_momentum", "adam", "lbfgs"])
@pytest.mark.parametrize("model_name", ["cnn_batch_norm", "dropout", "frozen_layers", "attention"])
def test_train_mode_trains_with_batch_statistics_and_masks(
    model_name: str, optimizer_name: str
) -> None:
    model, optimizer = build_case(model_name, optimizer_name)
    warm(model, optimizer)
    label = unlikely(model)
    expected = naive(model, optimizer, label, mode="train")
    found = resistance(model, optimizer, SAMPLE, label, max_steps=MOST, mode="train", verify=True)
    assert agrees(found, expected)
    if model_name != "frozen_layers":
        model.eval()  # the mode asked for counts, not the one the model is in
        again = resistance(model, optimizer, SAMPLE, label, max_steps=MOST, mode="train")
        assert agrees(again, expected)
        assert not model.training


def test_eval_mode_is_the_default_because_one_sample_has_no_statistics() -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    label = unlikely(model)
    assert resistance(model, optimizer, SAMPLE, label).is_memorized
    with (
        verify_unchanged(model, optimizer),
        pytest.raises(ValueError, match="more than 1 value per chan"),
    ):
        resistance(model, optimizer, SAMPLE, label, mode="train")


@pytest.mark.parametrize("optimizer_name", ["sgd_momentum", "adam", "lbfgs"])
def test_fresh_and_plain_steps(optimizer_name: str) -> None:
    model, optimizer = build_case("mlp", optimizer_name)
    warm(model, optimizer)
    label = unlikely(model)
    fresh = resistance(model, optimizer, SAMPLE, label, rule="fresh", max_steps=MOST, verify=True)
    assert agrees(fresh, naive(model, optimizer, label, keep_state=False))
    plain = resistance(
        model, optimizer, SAMPLE, label, rule=rote.PlainStep(0.2), max_steps=40, verify=True
    )
    expected = naive(
        model,
        optimizer,
        label,
        stepper=lambda twin: torch.optim.SGD(twin.parameters(), lr=0.2),
        max_steps=40,
    )
    assert agrees(plain, expected)
    assert plain.is_memorized


def test_a_label_predicted_already_takes_no_step() -> None:
    model, optimizer = build_case("mlp", "adam")
    label = int(model(SAMPLE).argmax())
    found = resistance(model, optimizer, SAMPLE, label, max_steps=0)
    assert found.steps == 0
    assert found.probabilities.shape == (1, CLASSES)
    assert found.losses == pytest.approx([-np.log(found.probabilities[0, label])])


def test_patience_ends() -> None:
    model, optimizer = build_case("mlp", "sgd")
    optimizer.param_groups[0]["lr"] = 0.0
    found = resistance(model, optimizer, SAMPLE, unlikely(model), max_steps=3)
    assert found.steps is None
    assert not found.is_memorized
    assert found.probabilities.shape == (4, CLASSES)
    assert len(set(found.losses)) == 1


def test_the_result_cannot_be_changed() -> None:
    model, optimizer = build_case("mlp", "sgd")
    found = resistance(model, optimizer, SAMPLE, 0)
    with pytest.raises(AttributeError, match="cannot assign to field 'steps'"):
        found.steps = 1  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        found.probabilities[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        found.losses[0] = 1.0


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_temperature_changes_probabilities_and_not_the_steps(temperature: float) -> None:
    model, optimizer = build_case("mlp", "sgd_momentum")
    label = unlikely(model)
    found = resistance(
        model, optimizer, SAMPLE, label, temperature=temperature, max_steps=60, verify=True
    )
    assert agrees(found, naive(model, optimizer, label, temperature=temperature, max_steps=60))
    as_it_is = resistance(model, optimizer, SAMPLE, label, max_steps=60)
    assert found.steps == as_it_is.steps
    np.testing.assert_array_equal(found.losses, as_it_is.losses)
    sharpened = as_it_is.probabilities ** (1 / temperature)
    expected = sharpened / sharpened.sum(1, keepdims=True)
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-6)


def test_the_predicted_label_may_have_to_be_probable() -> None:
    model, optimizer = build_case("mlp", "sgd")
    label = unlikely(model)
    found = resistance(model, optimizer, SAMPLE, label, max_steps=200)
    surer = resistance(model, optimizer, SAMPLE, label, max_steps=200, min_probability=0.95)
    assert found.steps is not None
    assert surer.steps is not None
    assert surer.steps > found.steps
    assert surer.probabilities[-1, label] >= 0.95 > surer.probabilities[-2, label]
    np.testing.assert_array_equal(surer.probabilities[: found.steps + 1], found.probabilities)


@pytest.mark.parametrize("label", range(CLASSES))
def test_a_network_that_diverges_predicts_nothing(label: int) -> None:
    model, optimizer = build_case("mlp", "sgd")
    optimizer.param_groups[0]["lr"] = float("inf")
    label_now = int(model(SAMPLE).argmax())
    with verify_unchanged(model, optimizer):
        found = resistance(model, optimizer, SAMPLE, label)
    # To argmax, not a number is the largest: class 0 would count as predicted.
    if label != label_now:
        assert not found.is_memorized
        assert np.isnan(found.probabilities[-1]).all()
        assert len(found.losses) == 2


class Keywords(nn.Module):
    """Takes keywords and returns an object, as Hugging Face models do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, CLASSES)

    def forward(self, *, pixels: Tensor, shift: Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.body(pixels.flatten(1)) + shift)


def test_a_sample_may_come_with_or_without_its_batch_axis() -> None:
    for name in ("mlp", "cnn_batch_norm"):
        model, optimizer = build_case(name, "adam")
        label = unlikely(model)
        for one, other in (
            (SAMPLE, label),
            (SAMPLE[0], torch.tensor(label)),
            (SAMPLE[0], np.int64(label)),
            ((SAMPLE,), torch.tensor([label])),
            ([SAMPLE[0]], label),
        ):
            found = resistance(model, optimizer, one, other, max_steps=MOST, verify=True)  # type: ignore[arg-type]
            assert agrees(found, naive(model, optimizer, label))


def test_samples_of_several_tensors_and_outputs_that_carry_logits() -> None:
    torch.manual_seed(0)
    model = Keywords()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shift = torch.tensor([[3.0, 0.0, 0.0, 0.0]])
    batched = {"pixels": SAMPLE, "shift": shift}
    single = {"pixels": SAMPLE[0], "shift": shift[0]}
    one = resistance(model, optimizer, batched, 2, verify=True)
    other = resistance(model, optimizer, single, 2)
    assert one.is_memorized
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    objective = lambda output, labels: cross_entropy(output.logits, labels)  # noqa: E731
    own = resistance(model, optimizer, single, 2, loss_fn=objective)
    np.testing.assert_array_equal(own.losses, one.losses)


def test_own_objectives_and_their_state() -> None:
    class Counting(nn.CrossEntropyLoss):
        calls = 0

        def forward(self, output: Tensor, labels: Tensor) -> Tensor:
            self.calls += 1
            return 2 * super().forward(output, labels)

    model, optimizer = build_case("mlp", "sgd")
    label = unlikely(model)
    objective = Counting()
    found = resistance(model, optimizer, SAMPLE, label, loss_fn=objective)
    assert objective.calls == 0
    resistance(model, optimizer, SAMPLE, label, loss_fn=lambda output, y: objective(output, y))
    assert objective.calls == 0
    plain = resistance(model, optimizer, SAMPLE, label)
    assert found.losses[0] == pytest.approx(2 * plain.losses[0])
    assert found.steps is not None
    assert plain.steps is not None
    assert found.steps <= plain.steps


def test_an_optimizer_may_get_a_closure_without_asking() -> None:
    class Twice(torch.optim.SGD):
        """Steps from where its gradient leads, as SAM does."""

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            assert closure is not None
            super().step()
            closure()
            super().step()

    model, _ = build_case("mlp", "sgd")
    label = unlikely(model)
    optimizer = Twice(model.parameters(), lr=0.01)
    found = resistance(model, optimizer, SAMPLE, label, closure=True, verify=True)
    single = torch.optim.SGD(model.parameters(), lr=0.01)
    plain = resistance(model, single, SAMPLE, label, max_steps=2 * len(found.losses))
    assert plain.steps is not None
    assert found.steps == (plain.steps + 1) // 2
    np.testing.assert_allclose(found.losses[:2], plain.losses[:3:2], rtol=1e-6)


def test_hooks_stay_silent() -> None:
    model, optimizer = build_case("mlp", "sgd_momentum")
    fired: list[Any] = []
    optimizer.register_step_pre_hook(lambda *_: fired.append("pre"))
    optimizer.register_step_post_hook(lambda *_: fired.append("post"))
    model[1].weight.register_post_accumulate_grad_hook(fired.append)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    handles = [
        register_optimizer_step_pre_hook(lambda *_: fired.append("global pre")),
        register_optimizer_step_post_hook(lambda *_: fired.append("global post")),
    ]
    try:
        for rule in ("live", "fresh", rote.PlainStep()):
            resistance(model, optimizer, SAMPLE, unlikely(model), rule=rule, verify=True)
        assert fired == []
        with pytest.warns(UserWarning, match="before `optimizer.step"):
            scheduler.step()
        warm(model, optimizer)
        assert {"pre", "post", "global pre", "global post"} <= {
            entry for entry in fired if isinstance(entry, str)
        }
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_it_works_inside_evaluation_blocks(context: Callable[[], Any]) -> None:
    model, optimizer = build_case("cnn_batch_norm", "adam")
    label = unlikely(model)
    expected = resistance(model, optimizer, SAMPLE, label, max_steps=MOST)
    with context():
        found = resistance(model, optimizer, SAMPLE.clone(), label, max_steps=MOST, verify=True)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    assert not any(p.is_inference() for p in [*model.parameters(), *model.buffers()])


def test_under_autocast_the_stepped_weights_are_seen() -> None:
    model, optimizer = build_case("mlp", "sgd")
    label = unlikely(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(SAMPLE)  # fills the cache of bfloat16 weights
        found = resistance(model, optimizer, SAMPLE, label, verify=True)
    assert found.is_memorized
    assert found.losses[-1] < found.losses[0]


def test_wrappers_are_looked_through() -> None:
    model, optimizer = build_case("mlp", "sgd")
    label = unlikely(model)
    expected = resistance(model, optimizer, SAMPLE, label)
    for wrapper in (torch.compile(model, backend="eager"), nn.DataParallel(model)):
        found = resistance(wrapper, optimizer, SAMPLE, label)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)


@pytest.mark.parametrize("place", ["forward", "loss", "step"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_errors_anywhere_leave_no_trace(place: str, error: type[BaseException]) -> None:
    count = 0

    def diverge(where: str) -> None:
        nonlocal count
        count += where == place
        if count == 3:
            raise error("boom")

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = MODELS["cnn_batch_norm"]()

        def forward(self, x: Tensor) -> Tensor:
            diverge("forward")
            return self.inner(x)  # type: ignore[no-any-return]

    class Adam(torch.optim.Adam):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            super().step()
            diverge("step")

    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        diverge("loss")
        return cross_entropy(output, labels)

    model = Model()
    optimizer = Adam(model.parameters(), lr=1e-4)
    with pytest.raises(error, match="boom"), verify_unchanged(model, optimizer):
        resistance(model, optimizer, SAMPLE, 3, loss_fn=loss_fn, min_probability=0.99)


def train_on_digits(images: Tensor, labels: Tensor) -> tuple[nn.Module, Optimizer]:
    """A network that has learned all of its labels, right or wrong."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for _ in range(100):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    return model, optimizer


def test_a_good_network_resists_wrong_labels_and_learns_right_ones() -> None:
    """The paper's figures of Section 2, small: clean labels against half of them resampled."""
    pixels, classes = load_digits(return_X_y=True)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(classes), generator=generator)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32)[order], torch.tensor(classes)[order]
    resampled = torch.randint(10, y.shape, generator=generator)
    noisy = torch.where(torch.rand(y.shape, generator=generator) < 0.5, resampled, y)
    networks = [train_on_digits(x[:600], labels[:600]) for labels in (y, noisy)]
    errors = [measure_calibration_error(model(x[600:]), y[600:]) for model, _ in networks]
    target = sum(errors) / 2
    temperatures = [
        find_temperature_for_error(model(x[600:]), y[600:], target) for model, _ in networks
    ]
    wrong, right = [0, 0], [0, 0]
    for sample in range(600, 620):
        for which, (model, optimizer) in enumerate(networks):
            for label, total in (((y[sample] + 1) % 10, wrong), (y[sample], right)):
                found = resistance(
                    model,
                    optimizer,
                    x[sample],
                    label,
                    rule=rote.PlainStep(1e-3),
                    temperature=temperatures[which],
                    max_steps=200,
                )
                total[which] += 200 if found.steps is None else found.steps
    assert wrong[0] > 1.3 * wrong[1]
    assert right[0] < right[1]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "model": ({"model": 3}, "`model` to be a torch.nn.Module, got int"),
    "optimizer": ({"optimizer": 3}, "`optimizer` to be a torch optimizer"),
    "text": ({"input": "cat"}, "`input` to be a tensor, .* got str without a tensor"),
    "many samples": ({"input": X}, r"one sample that the model takes, .* got \(6, 1, 8, 8\)"),
    "wrong size": ({"input": X[0, :, :3]}, r"one sample that the model takes, .* got \(1, 3, 8\)"),
    "large label": ({"label": CLASSES}, "one of the 4 classes, 0 to 3, got 4"),
    "negative label": ({"label": -1}, "one of the 4 classes, 0 to 3, got -1"),
    "soft label": ({"label": 0.5}, "one of the 4 classes, 0 to 3, got 0.5"),
    "soft tensor": ({"label": torch.tensor(1.0)}, r"0 to 3, got tensor\(1.\)"),
    "two labels": ({"label": Y[:2]}, r"0 to 3, got tensor\(\[0, 1\]\)"),
    "bool": ({"label": True}, "0 to 3, got True"),
    "max_steps": ({"max_steps": -1}, "`max_steps` to be an integer of at least 0, got -1"),
    "many max_steps": ({"max_steps": 1.5}, "`max_steps` to be an integer of at least 0, got 1.5"),
    "rule": ({"rule": "dead"}, "`rule` to be 'live', 'fresh' or a PlainStep, got 'dead'"),
    "mode": ({"mode": "test"}, "`mode` to be one of train, eval, got 'test'"),
    "temperature": (
        {"temperature": 0.0},
        "`temperature` to be a number that is positive and finite, got 0.0",
    ),
    "sure": ({"min_probability": 1.0}, "a number that is at least 0 and below 1, got 1.0"),
    "loss shape": (
        {"loss_fn": lambda o, y: cross_entropy(o, y, reduction="none").expand(3)},
        r"`loss_fn` to return a scalar tensor, got shape \(3,\)",
    ),
    "loss type": ({"loss_fn": lambda o, y: 1.0}, "return a scalar tensor, got float"),
    "constant loss": (
        {"loss_fn": lambda o, y: cross_entropy(o.detach(), y)},
        "not depend on parameters that require gradients",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_refused_and_touch_nothing(case: str) -> None:
    changes, message = BAD[case]
    model, optimizer = build_case("mlp", "adam")
    warm(model, optimizer)
    arguments: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "input": SAMPLE,
        "label": unlikely(model),
    }
    with verify_unchanged(model, optimizer), pytest.raises(InputError, match=message):
        resistance(**(arguments | changes))


def test_outputs_without_a_row_of_logits_are_refused() -> None:
    single = nn.Sequential(nn.Flatten(), nn.Linear(64, 1))
    silent = copy.deepcopy(single)
    silent.forward = lambda x: "cat"  # type: ignore[assignment]
    for model, message in ((single, r"two or more classes, got shape \(1, 1\)"), (silent, "str")):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(InputError, match=message):
            resistance(model, optimizer, SAMPLE, 0)
