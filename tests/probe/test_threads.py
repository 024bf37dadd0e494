"""A probe in one thread while another trains: refused, instead of other weights."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import ConcurrentProbeError, InterferenceError
from tests.cases import CLASSES, images

X, Y = images(12, seed=9), torch.arange(12) % CLASSES


class Background:
    """A probe in another thread, held in the middle of its first pass until it is let go."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.is_held = False
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.tracker = rote.track(
            self.model, self.optimizer, inputs=X, num_classes=CLASSES, loss_fn=self.loss
        )
        self.is_held = True

    def loss(self, output: Tensor, labels: Tensor) -> Tensor:
        if self.is_held and threading.current_thread().name == "prober":
            self.reached.set()
            assert self.go_on.wait(60)
        return cross_entropy(output, labels)

    def run(self, meanwhile: Callable[[], object]) -> None:
        thread = threading.Thread(target=self.tracker.probe, name="prober")
        thread.start()
        try:
            assert self.reached.wait(60)
            meanwhile()
        finally:
            self.go_on.set()
            thread.join()


@pytest.mark.parametrize("name", ["step", "zero_grad"])
def test_the_optimizer_cannot_be_used_while_another_thread_probes(name: str) -> None:
    training = Background()
    weights = [parameter.tolist() for parameter in training.model.parameters()]

    def meanwhile() -> None:
        with pytest.raises(
            ConcurrentProbeError,
            match=rf"optimizer.{name}\(\) was called in thread 'MainThread' while thread 'prober'",
        ):
            getattr(training.optimizer, name)()

    training.run(meanwhile)
    assert [parameter.tolist() for parameter in training.model.parameters()] == weights
    assert len(training.tracker.readings) == 1
    assert not {"step", "zero_grad"} & vars(training.optimizer).keys()
    training.optimizer.zero_grad()
    training.optimizer.step()


def test_a_second_probe_is_refused_while_another_thread_probes() -> None:
    training = Background()

    def meanwhile() -> None:
        with pytest.raises(ConcurrentProbeError, match="one probe of an optimizer at a time"):
            training.tracker.probe()

    training.run(meanwhile)
    assert [reading.step for reading in training.tracker.readings] == [1]
    assert training.tracker.probe() is not None
    assert issubclass(ConcurrentProbeError, InterferenceError)


def test_other_models_may_be_trained_and_probed_meanwhile() -> None:
    training, other = Background(), Background()

    def meanwhile() -> None:
        other.optimizer.zero_grad()
        cross_entropy(other.model(X), Y).backward()
        other.optimizer.step()
        assert other.tracker.probe() is not None

    training.run(meanwhile)


def test_a_scheduler_keeps_its_wrapper_around_the_step() -> None:
    training = Background()
    training.is_held = False
    scheduler = torch.optim.lr_scheduler.StepLR(training.optimizer, 1)
    wrapper = vars(training.optimizer)["step"]
    training.tracker.probe()
    assert vars(training.optimizer)["step"] is wrapper
    training.optimizer.step()
    scheduler.step()  # would warn of a step that it has not seen


def test_a_probe_that_fails_gives_the_optimizer_back() -> None:
    training = Background()
    training.tracker._probe.__dict__["loss_fn"] = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        training.tracker.probe()
    assert not {"step", "zero_grad"} & vars(training.optimizer).keys()
