"""Training steps with a probe after each equal as many without, bit for bit."""

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset

import rote
from tests.cases import (
    BATCH,
    CLASSES,
    MODELS,
    MODES,
    MOMENTS,
    ODD_MODELS,
    OPTIMIZERS,
    build_case,
    images,
)
from tests.oracle import oracle_losses

STEPS = 8


class Training:
    """A small noisy training run, which may be probed after every step."""

    def __init__(self, model_name: str, optimizer_name: str, moment: str) -> None:
        self.model, self.optimizer = build_case(model_name, optimizer_name)
        self.moment = moment
        torch.manual_seed(1)
        np.random.seed(1)
        random.seed(1)
        generator = torch.Generator().manual_seed(5)
        labels = torch.randint(CLASSES, (24,), generator=generator)
        data = TensorDataset(images(24, seed=6), labels, torch.arange(24))
        self.loader = DataLoader(data, batch_size=BATCH, shuffle=True)
        self.losses: list[float] = []
        self.order: list[int] = []
        self.draws: list[float] = []

    def run(self, steps: int, tracker: rote.Tracker | None = None, mode: str = "train") -> None:
        done = 0
        if tracker is not None and self.moment == "no_steps_yet":
            self._probe(tracker, mode)
        while done < steps:
            for x, y, index in self.loader:
                if done == steps:
                    break
                self.order += index.tolist()
                self._train_step(x, y, tracker, mode)
                self.draws += [random.random(), float(np.random.rand()), float(torch.rand(()))]
                done += 1

    def _train_step(self, x: Tensor, y: Tensor, tracker: rote.Tracker | None, mode: str) -> None:
        def accumulate(inputs: Tensor) -> Tensor:
            loss = cross_entropy(self.model(inputs), y)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()

        self.optimizer.zero_grad()
        loss = accumulate(x)
        if tracker is not None and self.moment == "half_accumulated":
            self._probe(tracker, mode)
        if isinstance(self.optimizer, torch.optim.LBFGS):
            loss += self.optimizer.step(lambda: accumulate(x.flip(-1)))  # type: ignore[no-untyped-call]
        else:
            loss += accumulate(x.flip(-1))
            self.optimizer.step()
        self.losses.append(float(loss))
        if tracker is not None and self.moment != "half_accumulated":
            self._probe(tracker, mode)

    def _probe(self, tracker: rote.Tracker, mode: str) -> None:
        x, y = tracker.batch.inputs, tracker.batch.labels
        assert isinstance(x, Tensor)
        expected = {
            rule: oracle_losses(self.model, self.optimizer, x, y, mode=mode, rule=rule)
            for rule in ("live", 0.01)
        }
        reading = tracker.probe()
        assert reading is not None
        assert (reading.loss_before, reading.loss_after) == pytest.approx(
            expected["live"], rel=1e-5
        )
        assert reading.loss_after_plain == pytest.approx(expected[0.01][1], rel=1e-5)


def state_of(training: Training) -> dict[str, Any]:
    """Everything that must be equal, as nests of plain values."""
    strays = [p for group in training.optimizer.param_groups for p in group["params"]]
    return {
        "model": {
            name: value.to_dense().tolist() for name, value in training.model.state_dict().items()
        },
        "parameters": [parameter.tolist() for parameter in strays],
        "gradients": [None if p.grad is None else p.grad.to_dense().tolist() for p in strays],
        "other gradients": [
            None if p.grad is None else p.grad.to_dense().tolist()
            for p in training.model.parameters()
        ],
        "optimizer": _plain(training.optimizer.state_dict()),
        "flags": [(m.training, sorted(vars(m))) for m in training.model.modules()],
        "attributes": [getattr(training.model, "calls", 0), getattr(training.model, "history", 0)],
        "counter": getattr(training.optimizer, "steps_taken", 0),
        "losses": training.losses,
        "order": training.order,
        "draws": training.draws,
        "random": (
            random.getstate(),
            torch.get_rng_state().tolist(),
            _plain(np.random.get_state()),
        ),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to_dense().tolist()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def track(model: nn.Module, optimizer: Optimizer, mode: Any) -> rote.Tracker:
    return rote.track(
        model,
        optimizer,
        inputs=images(2 * BATCH, seed=9),
        num_classes=CLASSES,
        policy=rote.ProbePolicy(mode=mode, batch=BATCH),
    )


def cases() -> Iterator[Any]:
    """All models × optimizers × modes × moments; all but one of each pair are marked ``full``.

    Modes and moments go round with both names, so that by default every model and every optimizer
    meets every mode at every moment. The fast lane has every third pair.
    """
    times = list(product(MODES, MOMENTS))
    for (i, model), (j, optimizer) in product(enumerate(MODELS), enumerate(OPTIMIZERS)):
        for position, time in enumerate(times):
            lane = [] if (i + j) % 3 == 0 else [pytest.mark.slow]
            marks = lane if position == (i + j) % len(times) else [pytest.mark.full]
            yield pytest.param(model, optimizer, *time, marks=marks)


@pytest.mark.filterwarnings("ignore::rote.errors.RoteWarning")  # tiny nets swing
@pytest.mark.parametrize(("model_name", "optimizer_name", "mode", "moment"), [*cases()])
def test_training_is_bit_identical_and_readings_equal_the_oracle(
    model_name: str, optimizer_name: str, mode: str, moment: str
) -> None:
    compare(model_name, optimizer_name, mode, moment)


@pytest.mark.parametrize(("mode", "moment"), [*product(MODES, MOMENTS)])
def test_the_default_cases_combine_every_model_optimizer_mode_and_moment(
    mode: str, moment: str
) -> None:
    default = [case.values for case in cases() if pytest.mark.full not in case.marks]
    assert {(model, optimizer) for model, optimizer, *_ in default} == set(
        product(MODELS, OPTIMIZERS)
    )
    met = [case for case in default if case[2:] == (mode, moment)]
    assert {model for model, *_ in met} == set(MODELS)
    assert {optimizer for _, optimizer, *_ in met} == set(OPTIMIZERS)


@pytest.mark.filterwarnings("ignore::rote.errors.RoteWarning")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model_name", ODD_MODELS)
def test_unusual_models_are_left_unchanged(model_name: str, mode: str, moment: str) -> None:
    compare(model_name, "sgd" if model_name == "marked" else "sgd_momentum", mode, moment)


def compare(model_name: str, optimizer_name: str, mode: str, moment: str) -> None:
    """Train twice from the same start, once with probes; everything must be equal."""
    bare, probed = (Training(model_name, optimizer_name, moment) for _ in range(2))
    warm_up = 3 if moment == "mid_training" else 0
    states = []
    for training in (bare, probed):
        torch.manual_seed(2)
        np.random.seed(2)
        random.seed(2)
        training.run(warm_up)
        tracker = None
        if training is probed:
            tracker = track(training.model, training.optimizer, mode)
        training.run(STEPS, tracker, mode)
        states.append(state_of(training))
        assert tracker is None or len(tracker.readings) >= STEPS
    for name, value in states[0].items():
        assert states[1][name] == value, name


def train_in_mixed_precision(probed: bool) -> tuple[list[float], dict[str, Any], dict[str, Any]]:
    model, optimizer = build_case("cnn_batch_norm", "sgd_momentum")
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
    tracker = track(model, optimizer, "train") if probed else None
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for half in images(BATCH, seed=step).split(BATCH // 2):
                loss = cross_entropy(model(half), torch.arange(len(half)))
                scaler.scale(loss).backward()
                if tracker is not None:  # inside autocast, gradients scaled and half accumulated
                    tracker.probe()
        scaler.step(optimizer)
        scaler.update()
        if tracker is not None:
            tracker.probe()
        losses.append(loss.item())
    return losses, _plain(model.state_dict()), scaler.state_dict()


@pytest.mark.filterwarnings("ignore::rote.errors.RoteWarning")
def test_mixed_precision_and_its_scaler_are_left_alone() -> None:
    assert train_in_mixed_precision(probed=True) == train_in_mixed_precision(probed=False)
