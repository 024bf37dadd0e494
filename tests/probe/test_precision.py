"""Losses in half precision, per token, with noise of kernels, and NaN logits."""

import math
import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import rote
from rote.errors import InputError, NonFiniteReadingWarning, UnresolvedReadingWarning
from rote.probe import cross_entropy

X = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))


def linear(dtype: torch.dtype = torch.float32) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(8, 10).to(dtype)
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_logits_of_half_precision_give_a_loss_of_single_precision(dtype: torch.dtype) -> None:
    logits, labels = torch.randn(16, 10).to(dtype), torch.arange(16) % 10
    found = cross_entropy(logits, labels)
    assert found.dtype == torch.float32
    assert found == functional.cross_entropy(logits.float(), labels)


@pytest.mark.parametrize("loss_fn", [None, functional.cross_entropy, rote.LogitsAt(0)])
def test_drops_of_a_bfloat16_model_are_finer_than_its_type(loss_fn: object) -> None:
    class Model(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            return (out,) if isinstance(loss_fn, rote.LogitsAt) else out  # type: ignore[return-value]

    torch.manual_seed(0)
    model = Model(8, 10).to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    tracker = rote.track(
        model,
        optimizer,
        inputs=X.to(torch.bfloat16),
        num_classes=10,
        loss_fn=loss_fn,  # type: ignore[arg-type]
    )
    reading = tracker.probe()
    assert reading is not None
    assert reading.drop * 64 != round(reading.drop * 64)
    assert reading.flags == ()


class Named(NamedTuple):
    """An output that cannot be changed."""

    logits: Tensor


@pytest.mark.parametrize(
    ("wrap", "read", "is_fine"),
    [
        (lambda logits: {"logits": logits}, lambda output: output["logits"], True),
        (lambda logits: SimpleNamespace(logits=logits), lambda output: output.logits, True),
        (Named, lambda output: output.logits, False),
    ],
)
def test_logits_in_an_output_are_converted_for_a_loss_of_the_user(
    wrap: Callable[[Tensor], Any], read: Callable[[Any], Tensor], *, is_fine: bool
) -> None:
    class Model(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return wrap(super().forward(x))

    torch.manual_seed(0)
    model = Model(8, 10).to(torch.bfloat16)
    found = rote.probe.evaluate_objective(
        lambda output, labels: functional.cross_entropy(read(output), labels),
        model,
        X.to(torch.bfloat16),
        torch.arange(32) % 10,
    )
    assert (found.dtype == torch.float32) == is_fine


def test_a_drop_below_the_resolution_of_its_loss_is_flagged() -> None:
    model, _ = linear(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def coarse(output: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(output, labels).to(torch.bfloat16)

    tracker = rote.track(
        model, optimizer, inputs=X.to(torch.bfloat16), num_classes=10, loss_fn=coarse
    )
    with pytest.warns(UnresolvedReadingWarning, match="step 1 .*resolution"):
        reading = tracker.probe()
    assert reading is not None
    assert "unresolved" in reading.flags


def test_a_step_of_learning_rate_0_is_not_called_unresolved() -> None:
    model, optimizer = linear()
    tracker = rote.track(model, optimizer, inputs=X, num_classes=10)
    optimizer.param_groups[0]["lr"] = 0.0
    reading = tracker.probe()
    assert reading is not None
    assert reading.drop == 0
    assert reading.flags == ()


@pytest.mark.parametrize("shape", [(3, 5, 4), (3, 4, 5)])
def test_labels_per_token_run_the_kernel_for_rows(shape: tuple[int, ...]) -> None:
    logits = torch.randn(shape, requires_grad=True)
    labels = torch.randint(4, (3, 5))
    labels[0, :2] = -100
    rows = logits if shape[-1] == 4 else logits.movedim(1, -1)
    found = cross_entropy(logits, labels)
    assert found.item() == pytest.approx(
        functional.cross_entropy(rows.reshape(-1, 4), labels.flatten()).item()
    )
    assert "NllLossBackward0" in str(found.grad_fn)


def test_one_logit_for_two_classes_leaves_ignored_labels_out() -> None:
    logits, labels = torch.randn(6), torch.tensor([0, 1, -100, 1, 0, -100])
    counted = labels >= 0
    expected = functional.binary_cross_entropy_with_logits(logits[counted], labels[counted].float())
    assert cross_entropy(logits, labels).item() == pytest.approx(expected.item())


@pytest.mark.parametrize("ulps", [0, 4])
def test_a_loss_that_ignores_the_labels_is_refused_under_noise_of_kernels(ulps: float) -> None:
    model = nn.Linear(8, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def own_labels(output: Tensor, _: Tensor) -> Tensor:
        loss = functional.cross_entropy(output, torch.arange(len(output)) % 10)
        return loss * (1 + ulps * 1.2e-7 * math.sin(time.perf_counter_ns()))

    with pytest.raises(InputError, match="does not depend on the random labels"):
        rote.probe.Probe(model, optimizer, 10, own_labels).check(X, torch.arange(32) % 10)


def test_a_loss_that_takes_the_labels_is_accepted_under_noise_of_kernels() -> None:
    model = nn.Linear(8, 10)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def noisy(output: Tensor, labels: Tensor) -> Tensor:
        loss = functional.cross_entropy(output, labels)  # log 10 with any labels
        return loss * (1 + 4 * 1.2e-7 * math.sin(time.perf_counter_ns()))

    assert rote.track(model, optimizer, inputs=X, num_classes=10, loss_fn=noisy)


class LastBit(nn.Module):
    """Moves every value by the last bit of bfloat16, up or down, never the same way twice."""

    def forward(self, x: Tensor) -> Tensor:
        draws = torch.tensor(list(os.urandom(x.numel()))).reshape(x.shape)
        return x * (1 + (draws % 2 * 2 - 1) * 2.0**-8).to(x.dtype)


def test_the_last_bit_of_bfloat16_is_not_called_unrepeatable() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(8, 10)
    nn.init.normal_(layer.weight, std=1.5)
    model = nn.Sequential(layer, LastBit()).to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(5):  # a warning is an error here
        rote.track(model, optimizer, inputs=X[:8].to(torch.bfloat16), num_classes=10)


def test_nan_logits_in_eval_mode_are_flagged() -> None:
    model = nn.Sequential(nn.Linear(8, 10), nn.BatchNorm1d(10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    given = torch.arange(32) % 10
    tracker = rote.track(model, optimizer, inputs=X, num_classes=10, given_labels=given)
    first = tracker.probe()
    assert first is not None
    assert first.flags == ()
    model[1].running_mean.fill_(math.nan)  # type: ignore[operator, union-attr]
    with pytest.warns(NonFiniteReadingWarning, match="step 2 .*NaN in eval mode"):
        reading = tracker.probe()
    assert reading is not None
    assert reading.flags == ("undefined_predictions",)
    assert reading.validation_accuracy is not None
    assert math.isnan(reading.validation_accuracy)
    assert math.isfinite(reading.drop)
    assert tracker.accuracy(X, given) == 0.0
