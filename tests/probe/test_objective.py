"""Objectives of every form: each measured on the random labels, or refused."""

import os
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import rote
from rote.errors import InputError, ProbabilitiesWarning, UnrepeatablePassWarning
from tests.oracle import oracle_losses

CLASSES = 5
X = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % CLASSES


@dataclass
class Output:
    logits: Tensor
    loss: Tensor | None = None


class Wrapped(nn.Module):
    """Returns what real models return: an object, a tuple, probabilities, its own loss."""

    def __init__(self, kind: str = "plain", classes: int = CLASSES) -> None:
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(6, classes)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
        logits = self.linear(x)
        if self.kind == "own loss":
            target = torch.zeros(len(x)).long() if labels is None else labels
            return Output(logits, cross_entropy(logits, target))
        if self.kind == "flat":
            return logits[:, 0]
        kinds: dict[str, Any] = {
            "plain": logits,
            "object": Output(logits),
            "tuple": (logits, x),
            "second": (x, logits),
            "softmax": logits.softmax(1),
            "sigmoid": logits.sigmoid(),
            "flat sigmoid": logits.sigmoid()[:, 0],
        }
        return kinds[self.kind]


def made(kind: str, classes: int = CLASSES) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = Wrapped(kind, classes)
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def reading(kind: str, *, classes: int = CLASSES, num: int = CLASSES, **options: Any) -> Any:
    model, optimizer = made(kind, classes)
    options = {"inputs": X, "num_classes": num, "labels": Y % num} | options
    tracker = rote.track(model, optimizer, **options)
    return tracker.probe()


def with_model(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    loss: Tensor = model(inputs, labels=labels).loss
    return loss


OBJECTIVES: dict[str, tuple[str, Any]] = {
    "object": ("object", None),
    "named": ("object", rote.LogitsAt("logits", nn.CrossEntropyLoss())),
    "tuple": ("tuple", rote.LogitsAt()),
    "second": ("second", rote.LogitsAt(1, cross_entropy)),
    "model": ("own loss", with_model),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_reading_does_not_depend_on_the_output_format(name: str) -> None:
    kind, loss_fn = OBJECTIVES[name]
    before, after = oracle_losses(*made("plain"), X, Y)
    found = reading(kind, loss_fn=loss_fn)
    assert (found.loss_before, found.loss_after) == (before, after)


def test_predictions_know_where_the_logits_are() -> None:
    model, optimizer = made("second")
    policy = rote.ProbePolicy(batch=4)
    tracker = rote.track(
        model,
        optimizer,
        inputs=X,
        num_classes=CLASSES,
        loss_fn=rote.LogitsAt(1),
        policy=policy,
    )
    found = tracker.probe()
    assert found is not None
    assert found.predictions is not None
    assert found.predictions.tolist() == model(X)[1].argmax(1).tolist()


def test_one_sample_is_memorized_through_every_form() -> None:
    steps = []
    for kind, loss_fn in [*OBJECTIVES.values(), ("plain", None)]:
        if kind != "own loss":  # its logits are the same, and asked for without labels
            found = rote.resistance(*made(kind), X[0], 3, loss_fn=loss_fn)
            steps.append((found.steps, found.losses.tolist()))
    assert steps[1:] == steps[:-1]
    found = rote.resistance(*made("own loss"), X[0], 3, loss_fn=with_model)
    assert (found.steps, found.losses.tolist()) == steps[0]


@pytest.mark.parametrize("loss_fn", [lambda o, _: o.loss, lambda o, y: o.loss + 0 * y.sum()])
def test_a_loss_that_does_not_look_at_the_labels_is_refused(loss_fn: Any) -> None:
    with pytest.raises(InputError, match="loss does not depend on the random labels.*LogitsAt"):
        reading("own loss", loss_fn=loss_fn)


def test_zero_initialized_layer_is_not_mistaken_for_a_constant_loss() -> None:
    model, optimizer = made("plain")
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    found = rote.track(model, optimizer, inputs=X, num_classes=CLASSES, labels=Y).probe()
    assert found is not None
    assert found.drop > 0


@pytest.mark.parametrize(
    "loss_fn", [None, nn.CrossEntropyLoss(), cross_entropy, lambda o, y: cross_entropy(o, y)]
)
def test_probabilities_under_a_cross_entropy_of_logits_are_noticed(loss_fn: Any) -> None:
    with pytest.warns(ProbabilitiesWarning, match="returns probabilities .rows") as caught:
        reading("softmax", loss_fn=loss_fn)
    assert caught[0].filename == __file__


def test_a_loss_of_an_output_with_logits_may_see_as_many_samples_as_classes() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = made("plain")[0]

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": self.inside(x)}

    model = Named()
    tracker = rote.track(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        inputs=X,
        num_classes=CLASSES,
        loss_fn=lambda output, y: cross_entropy(output["logits"], y),
        policy=rote.ProbePolicy(micro_batch=CLASSES),
    )
    assert tracker.probe() is not None


def test_probabilities_under_their_own_loss_are_fine() -> None:
    before, after = oracle_losses(*made("plain"), X, Y)
    found = reading("softmax", loss_fn=lambda p, y: functional.nll_loss(p.log(), y))
    assert (found.loss_before, found.loss_after) == pytest.approx((before, after))


def soft_target(output: Tensor, target: Tensor) -> Tensor:
    """A loss of rows of shares, as timm's; given classes, it spreads them over the columns."""
    return (-target * functional.log_softmax(output, -1)).sum(-1).mean()


@pytest.mark.parametrize("classes", [2, 5])
def test_classes_given_to_a_loss_of_shares_are_noticed(classes: int) -> None:
    with pytest.raises(InputError, match=rf"as many samples as classes \({classes}\)"):
        reading(
            "plain",
            classes=classes,
            num=classes,
            inputs=X[:classes],
            labels=torch.arange(classes),
            loss_fn=soft_target,
        )


def test_shares_are_what_that_loss_takes() -> None:
    def loss(output: Tensor, labels: Tensor) -> Tensor:
        return soft_target(output, functional.one_hot(labels, CLASSES).float())

    found = reading("plain", inputs=X[:CLASSES], labels=Y[:CLASSES], loss_fn=loss)
    before, after = oracle_losses(*made("plain"), X[:CLASSES], Y[:CLASSES], loss_fn=loss)
    assert (found.loss_before, found.loss_after) == (before, after)


@pytest.mark.parametrize("kind", ["plain", "flat"])
@pytest.mark.parametrize(
    "loss_fn", [None, nn.BCEWithLogitsLoss(), binary_cross_entropy_with_logits]
)
def test_one_logit_for_two_classes_needs_no_lambda(kind: str, loss_fn: Any) -> None:
    def oracle(output: Tensor, labels: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(output.reshape(-1), labels.float())

    before, after = oracle_losses(*made(kind, 1), X, Y % 2, loss_fn=oracle)
    model, optimizer = made(kind, 1)
    tracker = rote.track(
        model,
        optimizer,
        inputs=X,
        num_classes=2,
        labels=Y % 2,
        loss_fn=loss_fn,
        given_labels=Y % 2,
    )
    found = tracker.probe()
    assert found is not None
    assert (found.loss_before, found.loss_after) == (before, after)
    assert found.predictions is not None
    assert found.predictions.tolist() == (model(X).reshape(-1) > 0).long().tolist()
    share = (found.predictions == (Y % 2).numpy()).mean()
    assert found.validation_accuracy == pytest.approx(share)


@pytest.mark.parametrize("kind", ["sigmoid", "flat sigmoid"])
@pytest.mark.parametrize(
    "loss_fn",
    [
        nn.BCELoss(),
        functional.binary_cross_entropy,
        lambda o, y: functional.binary_cross_entropy(o.reshape(-1), y.float()),
    ],
)
def test_a_sigmoid_is_read_as_a_probability(kind: str, loss_fn: Any) -> None:
    """One half is where its classes part; at 0 all would be of the second."""

    def oracle(output: Tensor, labels: Tensor) -> Tensor:
        return functional.binary_cross_entropy(output.reshape(-1), labels.float())

    model, optimizer = made(kind, 1)
    tracker = rote.track(
        model, optimizer, inputs=X, num_classes=2, labels=Y % 2, loss_fn=loss_fn, given_labels=Y % 2
    )
    found = tracker.probe()
    assert found is not None
    losses = oracle_losses(*made(kind, 1), X, Y % 2, loss_fn=oracle)
    assert (found.loss_before, found.loss_after) == losses
    assert found.predictions is not None
    expected = (model(X).reshape(-1) > 0.5).long().tolist()
    assert found.predictions.tolist() == expected
    assert len(set(expected)) == 2


@pytest.mark.parametrize("kind", ["sigmoid", "flat sigmoid"])
@pytest.mark.parametrize("loss_fn", [None, nn.BCEWithLogitsLoss()])
def test_a_sigmoid_under_a_loss_of_logits_is_noticed(kind: str, loss_fn: Any) -> None:
    with pytest.warns(ProbabilitiesWarning, match="probabilities of a sigmoid.*BCELoss"):
        reading(kind, classes=1, num=2, labels=Y % 2, loss_fn=loss_fn)


@pytest.mark.parametrize(
    ("loss_fn", "message"),
    [
        (nn.CrossEntropyLoss, "got the class CrossEntropyLoss. Pass an object of it"),
        ("cross_entropy", "got 'cross_entropy'. Pass the loss of your training"),
        (nn.MSELoss(), "If `loss_fn` takes rows of shares, pass"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_losses_without_class_labels_are_refused(loss_fn: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        reading("plain", loss_fn=loss_fn)


def test_one_logit_is_not_enough_for_more_classes() -> None:
    for kind in ("plain", "flat"):
        with pytest.raises(InputError, match="to have num_classes = 5 classes, got 1"):
            reading(kind, classes=1)
    with pytest.raises(InputError, match="one logit per label"):
        reading("plain", loss_fn=nn.BCEWithLogitsLoss())


class Unrepeatable(Wrapped):
    """Draws from the operating system."""

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
        mask = torch.tensor(list(os.urandom(6))) / 255
        return super().forward(x * mask, labels)


def test_masks_that_cannot_be_repeated_are_flagged() -> None:
    model = Unrepeatable()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(UnrepeatablePassWarning, match="Repeated passes from the same state"):
        rote.track(model, optimizer, inputs=X, num_classes=CLASSES)


class Reseeding(Wrapped):
    """Seeds torch's generator from the operating system, as `torch.seed()` does."""

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
        torch.seed()
        return super().forward(functional.dropout(x), labels)


def test_a_forward_pass_that_reseeds_is_flagged_and_leaves_no_trace() -> None:
    model = Reseeding()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = torch.get_rng_state()
    with pytest.warns(UnrepeatablePassWarning):
        rote.track(model, optimizer, inputs=X, num_classes=CLASSES).probe()
    assert torch.equal(torch.get_rng_state(), state)
