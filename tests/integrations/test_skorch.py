import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rote
from rote.errors import RoteWarning, RunExistsError
from tests.integrations.small_runs import (
    BATCH,
    CLASSES,
    Augmented,
    DeepCopies,
    Network,
    X,
    Y,
    assert_as_expected,
    bits,
)
from tests.integrations.watching import Watching

pytest.importorskip("skorch", reason="needs rote[skorch]")

from sklearn.base import clone
from skorch import NeuralNet, NeuralNetBinaryClassifier, NeuralNetClassifier
from skorch.callbacks import EpochScoring

from rote.integrations.skorch import SusceptibilityCallback

pytestmark = pytest.mark.slow


class Checked(DeepCopies, SusceptibilityCallback):
    pass


def build(*callbacks: Any, softmax: bool = True, epochs: int = 3, **options: Any) -> Any:
    torch.manual_seed(0)
    settings = {
        "module__softmax": softmax,
        "criterion": nn.NLLLoss if softmax else nn.CrossEntropyLoss,
        "optimizer": torch.optim.Adam,
        "lr": 0.05,
        "max_epochs": epochs,
        "batch_size": BATCH,
        "iterator_train__shuffle": True,
        "train_split": None,
        "verbose": 0,
        "classes": list(range(CLASSES)),
    }
    return NeuralNetClassifier(Network, callbacks=list(callbacks), **(settings | options))


def fitted(*callbacks: Any, **options: Any) -> tuple[Any, Any]:
    net = build(*callbacks, **options)
    torch.manual_seed(5)
    net.fit(Augmented(), None)
    left = [net.module_.state_dict(), net.optimizer_.state_dict(), torch.get_rng_state()]
    return net, bits([*left, net.history[:, "train_loss"]])


def by_hand(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """skorch's objective for a module that ends in a softmax."""
    return nn.functional.nll_loss(torch.log(output + torch.finfo(output.dtype).eps), labels)


@pytest.mark.parametrize("every", ["epoch", 4])
@pytest.mark.parametrize("softmax", [True, False])
def test_training_is_bit_identical_and_readings_are_those_of_deep_copies(
    every: Any, softmax: bool
) -> None:
    _, expected = fitted(softmax=softmax)
    callback = Checked(every=every, signals=[Watching()], policy=rote.ProbePolicy(verify=True))
    net, found = fitted(callback, softmax=softmax)
    assert found == expected
    assert_as_expected(callback, 3 if every == "epoch" else 4)
    assert net.history[-1, "susceptibility"] == callback.tracker.susceptibility
    assert callback.tracker._probe.num_classes == CLASSES
    assert all("watched" in reading.metrics for reading in callback.tracker.readings)


def test_the_objective_is_the_nets_own() -> None:
    own, named = (SusceptibilityCallback(loss_fn=loss_fn) for loss_fn in (None, by_hand))
    for callback in (own, named):
        fitted(callback)
    assert [r.drop for r in own.tracker.readings] == [r.drop for r in named.tracker.readings]


@pytest.mark.parametrize("criterion", [nn.BCEWithLogitsLoss, nn.BCELoss])
def test_one_output_for_two_classes(criterion: Any) -> None:
    def module() -> nn.Module:
        last = nn.Sigmoid() if criterion is nn.BCELoss else nn.Identity()
        return nn.Sequential(nn.Linear(X.shape[1], 1), nn.Flatten(0), last)

    left = []
    callback = Checked(num_classes=2, policy=rote.ProbePolicy(verify=True))
    for callbacks in ([], [callback]):
        torch.manual_seed(0)
        settings = {"max_epochs": 2, "lr": 0.1, "train_split": None, "verbose": 0}
        kinds = {nn.BCELoss: NeuralNet, nn.BCEWithLogitsLoss: NeuralNetBinaryClassifier}
        net = kinds[criterion](module, criterion=criterion, callbacks=callbacks, **settings)
        net.fit(X, (Y % 2).float())
        left.append(bits(net.module_.state_dict()))
    assert left[0] == left[1]
    assert_as_expected(callback, 2)
    assert callback.tracker.readings[-1].train_accuracy > 0.5


def test_the_accuracy_is_measured_or_that_of_the_history() -> None:
    measured = SusceptibilityCallback()
    net, _ = fitted(measured)
    assert net.history[:, "train_accuracy"] == [
        reading.train_accuracy for reading in measured.tracker.readings
    ]
    scoring = EpochScoring("accuracy", name="mine", on_train=True)
    callback = SusceptibilityCallback(train_accuracy="mine")
    net, _ = fitted(scoring, callback)
    assert [r.train_accuracy for r in callback.tracker.readings] == net.history[:, "mine"]


def test_the_accuracy_is_measured_again_at_every_probe_of_an_epoch() -> None:
    found = []
    for name in ("train_accuracy", None):  # None: what the history holds is not looked at
        callback = SusceptibilityCallback(every=2, train_accuracy=name)
        fitted(callback)
        found.append([reading.train_accuracy for reading in callback.tracker.readings])
    assert found[0] == found[1]
    assert len(set(found[0][:3])) > 1  # of the first epoch


def test_the_rule_stops_and_the_verdict_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = rote.StopRule(train_accuracy=0.0, patience=1, min_epochs=1)
    callback = SusceptibilityCallback(stop=rule, save_to=tmp_path / "run")
    with caplog.at_level("INFO", logger="rote"):
        net, _ = fitted(callback, epochs=60)
    assert len(net.history) == len(callback.tracker.readings) < 60
    assert rote.select(tmp_path / "run").headline in caplog.text


def test_partial_fit_resumes_and_fit_starts_over(tmp_path: Path) -> None:
    whole = SusceptibilityCallback()
    fitted(whole, epochs=3)
    callback = SusceptibilityCallback(save_to=tmp_path / "run")
    net, _ = fitted(callback, epochs=2)
    net.partial_fit(Augmented(), None, epochs=1)
    found = [(reading.step, reading.drop) for reading in callback.tracker.readings]
    assert found == [(reading.step, reading.drop) for reading in whole.tracker.readings]
    assert len(rote.store.read_run(tmp_path / "run").readings) == 3
    with pytest.raises(RunExistsError, match=r"`partial_fit`"):
        net.fit(Augmented(), None)


def test_it_can_be_cloned_pickled_and_asked_for_its_parameters() -> None:
    net, _ = fitted(
        SusceptibilityCallback(every=5, stop=rote.StopRule(train_accuracy=0.0, min_epochs=1))
    )
    copied = pickle.loads(pickle.dumps(net))
    assert torch.equal(copied.module_[0].weight, net.module_[0].weight)
    params = net.get_params()
    assert params["callbacks__SusceptibilityCallback__every"] == 5
    again = clone(net).fit(Augmented(), None)
    assert again.callbacks[0] is not net.callbacks[0]
    assert len(again.callbacks[0].tracker.readings) == 3


def test_arrays_and_a_validation_split_work() -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    net = build(callback, train_split=NeuralNetClassifier(Network).train_split)
    net.fit(X.numpy(), Y.numpy())
    assert len(callback.tracker.readings) == 3
    assert len(callback.tracker.batch.inputs) < len(X)  # the training part of the split


def test_a_named_column_that_is_not_there_is_pointed_out() -> None:
    with pytest.warns(RoteWarning, match="`my_acc` was not logged before the first probe"):
        fitted(SusceptibilityCallback(train_accuracy="my_acc"))
