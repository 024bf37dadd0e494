import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rote
from rote.errors import RunExistsError
from tests.integrations.small_runs import (
    BATCH,
    CLASSES,
    Augmented,
    DeepCopies,
    Network,
    assert_as_expected,
    bits,
)
from tests.integrations.watching import Watching

pytest.importorskip("fastai.learner", reason="needs rote[fastai], which brings torchvision")

with warnings.catch_warnings():  # fastai 2.8 on pandas 3
    warnings.simplefilter("ignore")
    from fastai.callback.core import Callback
    from fastai.callback.tracker import EarlyStoppingCallback
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner
    from fastai.optimizer import Adam, OptimWrapper, ranger

from rote.integrations import fastai as integration
from rote.integrations.fastai import SusceptibilityCallback

pytestmark = pytest.mark.slow

OPTIMIZERS = {
    "Adam": Adam,
    "ranger": ranger,
    "torch": lambda params, **hypers: OptimWrapper(params, torch.optim.AdamW, **hypers),
}


class SeenLosses(Callback):
    """The losses of training, in order."""

    def before_fit(self) -> None:
        self.found: list[float] = []

    def after_batch(self) -> None:
        if self.training:
            self.found.append(float(self.learn.loss.detach()))


def build(*callbacks: Any, optimizer: Any = Adam) -> Any:
    torch.manual_seed(0)
    random.seed(0)  # of which fastai's loaders make a generator of their own
    loaders = [
        DataLoader(Augmented(), bs=BATCH, shuffle=shuffle, num_workers=0)
        for shuffle in (True, False)
    ]
    return Learner(
        DataLoaders(*loaders),
        Network(),
        loss_func=nn.CrossEntropyLoss(),
        opt_func=optimizer,
        lr=0.02,
        cbs=list(callbacks),
    )


def fitted(*callbacks: Any, epochs: int = 3, **options: Any) -> tuple[Any, Any]:
    losses = SeenLosses()
    learn = build(losses, *callbacks, **options)
    torch.manual_seed(5)
    with learn.no_bar(), learn.no_logging():
        learn.fit(epochs)
    states = [[p.detach(), *learn.opt.state[p].values()] for p in learn.model.parameters()]
    return learn, bits([learn.model.state_dict(), states, torch.get_rng_state(), losses.found])


class Checked(SusceptibilityCallback):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.rote = type("Checked", (DeepCopies, integration._LearnerAdapter), {})(**options)


@pytest.mark.parametrize("every", ["epoch", 4])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_is_bit_identical_and_readings_are_those_of_deep_copies(
    optimizer: str, every: Any
) -> None:
    _, expected = fitted(optimizer=OPTIMIZERS[optimizer])
    callback = Checked(
        num_classes=CLASSES,
        every=every,
        signals=[Watching()],
        policy=rote.ProbePolicy(verify=True),
    )
    learn, found = fitted(callback, optimizer=OPTIMIZERS[optimizer])
    assert found == expected
    assert_as_expected(callback.rote, 3 if every == "epoch" else 4)
    assert all("watched" in reading.metrics for reading in callback.tracker.readings)
    column = list(learn.recorder.metric_names).index("susceptibility") - 1
    assert learn.recorder.values[-1][column] == callback.tracker.susceptibility
    assert not learn.metrics


def test_the_rule_stops_and_the_verdict_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = rote.StopRule(train_accuracy=0.0, patience=1, min_epochs=1)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule, save_to=tmp_path / "run")
    with caplog.at_level("INFO", logger="rote"):
        learn, _ = fitted(callback, epochs=60)
    assert len(learn.recorder.values) == len(callback.tracker.readings) < 60
    assert callback.keep == len(callback.tracker.readings) - 1
    assert rote.select(tmp_path / "run").headline in caplog.text
    assert 0 < callback.tracker.readings[-1].train_accuracy <= 1


def test_fastais_own_trackers_can_monitor_it() -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    stopper = EarlyStoppingCallback(monitor="susceptibility", comp=np.less, patience=1)
    fitted(callback, stopper, epochs=60)
    zeta = [reading.susceptibility for reading in callback.tracker.readings]
    assert len(zeta) < 60
    assert zeta[-1] > min(zeta)


def test_a_second_fit_resumes(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run")
    learn, _ = fitted(callback, epochs=2)
    with learn.no_bar(), learn.no_logging():
        learn.fit(1)
    assert [reading.step for reading in callback.tracker.readings] == [1, 2, 3]
    assert [reading.global_step for reading in callback.tracker.readings] == [6, 12, 18]
    assert len(rote.store.read_run(tmp_path / "run").readings) == 3
    other = build(callback)
    with other.no_bar(), other.no_logging(), pytest.raises(RunExistsError, match="a second fit"):
        other.fit(1)


def test_nothing_is_probed_in_predictions() -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    learn = build(callback)
    with learn.no_bar(), learn.no_logging():
        learn.get_preds(ds_idx=1)
    assert callback.tracker is None
