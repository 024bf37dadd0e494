"""Signals: started, shown batches, read with the probe, and never noticed by the training."""

import io
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InputError, InterferenceError, StateError
from rote.records import Column
from rote.store import read_run
from rote.store.run_record import read_description
from rote.tracking import Batch, SignalContext
from tests.cases import CLASSES, build_case, images

# What the drops are is not looked at here.
pytestmark = pytest.mark.filterwarnings("ignore::rote.errors.DominatedMeanWarning")

TRAIN = images(24, seed=6)
LABELS = torch.arange(24) % CLASSES
HOLDOUT = images(20, seed=9)


class LargestLogit(rote.Signal):
    """Remembers over epochs, draws random numbers, and has a row per sample."""

    name = "largest"
    columns = (Column("largest", "largest logit", "signal", better="lower", rule="min:largest"),)

    def start(self, context: SignalContext) -> None:
        self.row_files = {"logit": ("float32", (len(TRAIN),))}
        self._row = torch.zeros(len(TRAIN))
        self._largest = -float("inf")
        torch.rand(3), np.random.rand(), random.random()

    def observe(self, batch: Batch) -> None:
        assert batch.indices is not None
        assert not batch.logits.requires_grad
        self._row[batch.indices] = batch.logits.amax(1)
        self._largest = max(self._largest, float(batch.logits.max()))
        torch.rand(3), np.random.rand(), random.random()

    def read(self, epoch: int) -> Mapping[str, float]:
        torch.rand(3), np.random.rand(), random.random()
        return {"largest": self._largest}

    def rows(self) -> Mapping[str, np.ndarray]:
        return {"logit": self._row.numpy().copy()}

    def state_dict(self) -> dict[str, Any]:
        return {"row": self._row, "largest": self._largest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._row, self._largest = state["row"].clone(), state["largest"]


class Training:
    """A training run with a tracker, or without."""

    def __init__(self, *, tracked: bool = True, **options: Any) -> None:
        self.model, self.optimizer = build_case("dropout", "sgd_momentum")
        options = {"signals": [LargestLogit()]} | options
        self.tracker = None
        if tracked:
            self.tracker = rote.track(
                self.model,
                self.optimizer,
                inputs=HOLDOUT,
                num_classes=CLASSES,
                given_labels=torch.arange(20) % CLASSES,
                policy=options.pop("policy", rote.ProbePolicy(batch=8)),
                **options,
            )

    def epochs(self, first: int, last: int) -> None:
        for epoch in range(first, last + 1):
            torch.manual_seed(epoch)
            for indices in torch.randperm(24).split(8):
                self.optimizer.zero_grad()
                logits = self.model(TRAIN[indices])
                loss = cross_entropy(logits, LABELS[indices])
                loss.backward()
                self.optimizer.step()
                if self.tracker is not None:
                    self.tracker.observe(
                        labels=LABELS[indices], logits=logits, indices=indices, loss=loss
                    )
            if self.tracker is not None:
                self.tracker.probe(train_accuracy=epoch / 10)
            self.draws = [random.random(), float(np.random.rand()), float(torch.rand(()))]


def test_training_with_signals_is_the_training_without() -> None:
    results = []
    for tracked in (False, True):
        random.seed(0), np.random.seed(0), torch.manual_seed(0)
        run = Training(tracked=tracked)
        run.epochs(1, 4)
        results.append((run.model.state_dict(), run.draws))
    bare, with_signals = results
    assert bare[1] == with_signals[1]
    assert all(torch.equal(bare[0][name], with_signals[0][name]) for name in bare[0])


def test_signal_values_are_in_the_reading_and_described_in_the_run(tmp_path: Path) -> None:
    run = Training(save_to=tmp_path / "run")
    run.epochs(1, 3)
    assert run.tracker is not None
    run.tracker.close()
    readings = read_run(tmp_path / "run").readings
    assert [r.largest for r in readings] == [r.largest for r in run.tracker.readings]
    assert readings[0].largest <= readings[-1].largest
    description = read_description(tmp_path / "run")
    assert description["columns"]["largest"] == {
        "label": "largest logit",
        "kind": "signal",
        "better": "lower",
        "rule": "min:largest",
    }
    assert description["columns"]["validation_accuracy"]["rule"] == "noisy-validation"
    assert description["rows"] == {"logit": {"dtype": "float32", "shape": [24]}}
    chosen = rote.select(tmp_path / "run", rule="last")
    assert "largest" in chosen.table.columns


def test_rows_per_sample_come_with_the_reading_and_are_not_kept() -> None:
    run = Training()
    run.epochs(1, 1)
    assert run.tracker is not None
    reading = run.tracker.probe()
    assert reading is not None
    assert reading.sample_rows["logit"].shape == (24,)
    assert run.tracker.readings[-1].sample_rows == {}


def test_a_restored_state_continues_with_its_signals() -> None:
    whole = Training()
    whole.epochs(1, 4)
    half = Training()
    half.epochs(1, 2)
    file = io.BytesIO()
    parts = (half.model, half.optimizer, half.tracker)
    torch.save([part.state_dict() for part in parts if part is not None], file)
    file.seek(0)
    again = Training()
    saved = torch.load(file, weights_only=True)
    parts = (again.model, again.optimizer, again.tracker)
    for part, state in zip(parts, saved, strict=True):
        assert part is not None
        part.load_state_dict(state)
    again.epochs(3, 4)
    assert whole.tracker is not None
    assert again.tracker is not None
    found, expected = again.tracker.readings, whole.tracker.readings
    assert [r.largest for r in found] == [r.largest for r in expected]
    assert [r.drop for r in found] == [r.drop for r in expected]


def test_a_state_of_other_signals_is_refused() -> None:
    run, other = Training(), Training(signals=[])
    assert run.tracker is not None
    assert other.tracker is not None
    with pytest.raises(StateError, match="got one of `largest`. Pass the same `signals`"):
        other.tracker.load_state_dict(run.tracker.state_dict())


class Moody(LargestLogit):
    """Fails, once it has changed."""

    fails = False

    def read(self, epoch: int) -> Mapping[str, float]:
        self._largest += 1000
        if self.fails:
            raise RuntimeError("in a mood")
        return {"largest": self._largest}


def test_a_probe_that_fails_leaves_signals_as_they_were(tmp_path: Path) -> None:
    signal = Moody()
    run = Training(signals=[signal], save_to=tmp_path / "run")
    run.epochs(1, 1)
    assert run.tracker is not None
    before = run.tracker.readings[-1].largest
    signal.fails = True
    with pytest.raises(RuntimeError, match="in a mood"):
        run.tracker.probe()
    signal.fails = False
    assert run.tracker.probe().largest == before + 1000
    run.tracker.close()
    assert len(read_run(tmp_path / "run").readings) == 2


class Meddling(LargestLogit):
    def start(self, context: SignalContext) -> None:
        super().start(context)
        self._model = context.model

    def read(self, epoch: int) -> Mapping[str, float]:
        with torch.no_grad():
            next(self._model.parameters()).add_(1)
        return {}


def test_verification_looks_at_signals_too() -> None:
    verifying = rote.ProbePolicy(batch=8, verify=True)
    Training(policy=verifying).epochs(1, 1)  # random numbers that are drawn are put back first
    run = Training(signals=[Meddling()], policy=verifying)
    assert run.tracker is not None
    with pytest.raises(InterferenceError, match=r"parameter 1\.weight"):
        run.tracker.probe()


class Named(rote.Signal):
    """A signal of one column, or of whatever it is told to have."""

    def __init__(self, name: str, *columns: str, reads: str | None = None) -> None:
        self.name = name
        self.columns = columns
        self._reads = reads or columns[0]

    def read(self, epoch: int) -> Mapping[str, float]:
        return {self._reads: 1.0}


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ([Named("a", "x"), Named("a", "y")], "names `a` twice"),
        ([Named("a", "x"), Named("b", "x")], "Column `x` comes from two signals, `a` and `b`"),
        ([Named("a", "drop")], "name `drop` is taken"),
        ([LargestLogit], "a class: pass an instance"),
        ([object()], "without name, columns"),
        (["label_wav"], "Did you mean 'label_wave'"),
        (["no_such_module:Signal"], "Cannot import .* ModuleNotFoundError"),
        (["json:Signal"], "Module 'json' has no 'Signal'"),
    ],
)
def test_signals_that_do_not_fit_are_refused(signals: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Training(signals=signals)


def test_signal_must_return_the_columns_it_describes() -> None:
    run = Training(signals=[Named("a", "x", reads="y")])
    assert run.tracker is not None
    with pytest.raises(InputError, match="Signal `a` reads `y"):
        run.tracker.probe()
    run = Training(signals=[Named("a", "train_accuracy")])
    assert run.tracker is not None
    with pytest.raises(InputError, match="name `train_accuracy` is taken: signal `a` measures it"):
        run.tracker.probe(train_accuracy=0.5)


class Plain:
    """No subclass, and only what the protocol asks for."""

    name = "plain"
    columns = ("count",)

    def __init__(self) -> None:
        self.batches = 0

    def observe(self, batch: Batch) -> None:
        self.batches += 1

    def read(self, epoch: int) -> dict[str, float]:
        return {"count": self.batches}

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self.batches}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.batches = state["batches"]


def test_any_object_with_the_six_names_is_a_signal() -> None:
    run = Training(signals=[Plain()])
    run.epochs(1, 2)
    assert run.tracker is not None
    assert [reading.count for reading in run.tracker.readings] == [3.0, 6.0]


def test_resume_with_other_signals_is_refused(tmp_path: Path) -> None:
    run = Training(signals=[], save_to=tmp_path / "run")
    run.epochs(1, 1)
    assert run.tracker is not None
    run.tracker.close()
    with pytest.raises(StateError, match="did not measure `largest`"):
        Training(save_to=tmp_path / "run", resume=True)
    assert "largest" not in json.loads((tmp_path / "run" / "run.json").read_text())["columns"]
