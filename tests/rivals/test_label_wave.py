"""Label Wave against a naive second implementation, in a loop and in a spec."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import rote
from rote.errors import InputError
from rote.rivals.label_wave import LabelWave
from rote.store.run_record import read_description
from rote.tracking import Batch
from rote.workloads import train
from tests.workloads.small_runs import numbers, small_spec


def naive(predictions: list[list[int]], k: int) -> list[float | None]:
    """PC′ by counting, epoch by epoch."""
    changes: list[float] = []
    found: list[float | None] = []
    for epoch, now in enumerate(predictions):
        if epoch:
            before = predictions[epoch - 1]
            changes.append(sum(a != b for a, b in zip(before, now, strict=True)) / len(now))
        found.append(sum(changes[-k:]) / k if len(changes) >= k else None)
    return found


@settings(max_examples=50, deadline=None)
@given(data=st.data(), samples=st.integers(1, 7), epochs=st.integers(1, 8), k=st.integers(1, 4))
def test_equals_counting(data: st.DataObject, samples: int, epochs: int, k: int) -> None:
    classes = st.lists(st.integers(0, 2), min_size=samples, max_size=samples)
    predictions = [data.draw(classes) for _ in range(epochs)]
    signal, found = LabelWave(k), []
    for epoch, classes_now in enumerate(predictions):
        order = torch.tensor(data.draw(st.permutations(range(samples))))
        for indices in order.split(2):
            logits = torch.eye(3)[torch.tensor(classes_now)[indices]]
            shown = indices.clone()
            signal.observe(Batch(labels=shown, logits=logits, indices=shown))
            logits.zero_(), shown.zero_()  # a loop may use its tensors again
        found.append(signal.read(epoch).get("label_wave"))
        again = LabelWave(k)
        again.load_state_dict(signal.state_dict())
        signal = again
    expected = naive(predictions, k)
    assert [value is None for value in found] == [value is None for value in expected]
    known = [(a, b) for a, b in zip(found, expected, strict=True) if a is not None]
    assert all(a == pytest.approx(b) for a, b in known)


def test_the_latest_prediction_of_a_sample_counts() -> None:
    signal = LabelWave(1)
    for classes, at in (([0, 1, 0], [0, 1, 2]), ([1, 1], [2, 0])):
        logits = torch.eye(2)[torch.tensor(classes)]
        signal.observe(Batch(torch.zeros(len(at)), logits, indices=torch.tensor(at)))
    assert signal.read(1) == {}
    signal.observe(Batch(torch.zeros(3), torch.eye(2)[[1, 0, 1]], indices=torch.arange(3)))
    assert signal.read(2)["label_wave"] == pytest.approx(1 / 3)


def test_missing_arguments_are_named() -> None:
    with pytest.raises(InputError, match="Pass `indices` to tracker.observe"):
        LabelWave().observe(Batch(labels=torch.zeros(2), logits=torch.zeros(2, 3)))
    with pytest.raises(InputError, match="`k` to be an integer of at least 1, got 0"):
        LabelWave(0)
    with pytest.raises(InputError, match="`patience` to be an integer of at least 1, got 0"):
        LabelWave(patience=0)


def kept_by_the_paper(waves: list[float], patience: int) -> int:
    """Which epoch Label Wave's own rule saves."""
    best, kept, wait = float("inf"), -1, 0
    for epoch, wave in enumerate(waves):
        if wave < best:
            best, kept, wait = wave, epoch, 0
        else:
            wait += 1
        if wait >= patience:
            break
    return kept


@settings(max_examples=60, deadline=None)
@given(data=st.data(), samples=st.integers(1, 5), patience=st.integers(1, 4))
def test_label_wave_keeps_the_lowest_value_within_its_patience(
    data: st.DataObject, samples: int, patience: int
) -> None:
    classes = st.lists(st.integers(0, 1), min_size=samples, max_size=samples)
    signal, waves, patient = LabelWave(1, patience), [], []
    for epoch in range(12):
        logits = torch.eye(2)[torch.tensor(data.draw(classes))]
        signal.observe(Batch(torch.zeros(samples), logits, indices=torch.arange(samples)))
        read = signal.read(epoch)
        if epoch:
            waves.append(read["label_wave"])
            patient.append(read.get("label_wave_patient", float("inf")))
        again = LabelWave(1, patience)
        again.load_state_dict(signal.state_dict())
        signal = again
    assert int(np.argmin(patient)) == kept_by_the_paper(waves, patience)


def test_a_spec_switches_it_on_and_selection_reads_it(tmp_path: Path) -> None:
    bare = train(small_spec(epochs=6))
    run = train(small_spec(epochs=6, signals=["label_wave"]), tmp_path / "run")
    assert bare.model is not None
    assert run.model is not None
    for name, tensor in bare.model.state_dict().items():
        assert torch.equal(tensor, run.model.state_dict()[name])
    values = [reading.metrics.get("label_wave") for reading in run.readings]
    assert values[:3] == [None] * 3
    assert all(value is not None and 0 <= value <= 1 for value in values[3:])
    without = [
        {**entry, "metrics": {k: v for k, v in entry["metrics"].items() if "wave" not in k}}
        for entry in numbers(run.readings)
    ]
    assert without == numbers(bare.readings)
    assert read_description(tmp_path / "run")["columns"]["label_wave"]["better"] == "lower"
    lowest = 3 + int(np.argmin([value for value in values if value is not None]))
    chosen = rote.select(tmp_path / "run", rule="min:label_wave")
    assert chosen.pick.step == run.readings[lowest].step


def test_signals_change_the_identity_only_where_there_are_some() -> None:
    assert small_spec().identity == small_spec(signals=[]).identity
    assert small_spec().identity != small_spec(signals=["label_wave"]).identity
    with pytest.raises(InputError, match="`signals` .*got 'label_wawe'. Did you mean 'label_wave'"):
        small_spec(signals=["label_wawe"])
    with pytest.raises(InputError, match="`signals` to be a list"):
        small_spec(signals="label_wave")
