"""Cumulative sample loss against sums written out, as a column and per sample."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from rote.errors import InputError
from rote.rivals.csl import Csl
from rote.store import read_table
from rote.tracking import Batch
from rote.workloads import train
from tests.workloads.small_runs import small_spec


def naive(epochs: list[list[list[float]]], labels: list[int]) -> list[float]:
    """The sum over epochs of −log softmax at the label, for every sample."""
    sums = np.zeros(len(labels))
    for logits in epochs:
        for sample, label in enumerate(labels):
            powers = np.exp(np.array(logits[sample]))
            sums[sample] -= np.log(powers[label] / powers.sum())
    return list(sums)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), samples=st.integers(1, 6), epochs=st.integers(1, 5))
def test_equals_sums_written_out(data: st.DataObject, samples: int, epochs: int) -> None:
    row = st.lists(st.integers(-8, 8).map(float), min_size=3, max_size=3)
    shown = [data.draw(st.lists(row, min_size=samples, max_size=samples)) for _ in range(epochs)]
    labels = data.draw(st.lists(st.integers(0, 2), min_size=samples, max_size=samples))
    signal = Csl(samples)
    signal.start(None)  # type: ignore[arg-type]  # it asks for nothing when it knows the size
    for logits in shown:
        order = torch.tensor(data.draw(st.permutations(range(samples))))
        for at in order.split(2):
            batch = Batch(torch.tensor(labels)[at], torch.tensor(logits)[at], indices=at)
            signal.observe(batch)
            batch.logits.zero_()  # a loop may use its tensors again
        if data.draw(st.booleans()):
            again = Csl(samples)
            again.start(None)  # type: ignore[arg-type]
            again.load_state_dict(signal.state_dict())
            signal = again
    expected = naive(shown, labels)
    assert signal.read(epochs)["csl"] == pytest.approx(np.mean(expected), rel=1e-4, abs=1e-6)
    assert signal.rows()["csl"] == pytest.approx(np.array(expected), rel=1e-4, abs=1e-6)


def test_samples_that_were_never_seen_have_no_sum() -> None:
    signal = Csl(3)
    signal.start(None)  # type: ignore[arg-type]
    assert signal.read(1) == {}
    logits = torch.tensor([[0.0, 0.0], [3.0, 1.0]])
    signal.observe(Batch(torch.tensor([1, -100]), logits, indices=torch.tensor([2, 0])))
    assert signal.read(1)["csl"] == pytest.approx(np.log(2))
    assert np.isnan(signal.rows()["csl"]).tolist() == [True, True, False]


def test_without_a_size_there_is_a_column_and_no_rows() -> None:
    signal = Csl()
    logits = torch.zeros(1, 2)
    signal.observe(Batch(torch.tensor([0]), logits, indices=torch.tensor([3])))
    assert signal.read(1)["csl"] == pytest.approx(np.log(2))
    assert signal.rows() == {}
    with pytest.raises(InputError, match="`csl`.*`indices`"):
        signal.observe(Batch(torch.tensor([0]), logits))
    with pytest.raises(InputError, match="`samples`.*got 0"):
        Csl(0)


def test_a_run_of_a_spec_records_a_sum_for_every_training_sample(tmp_path: Path) -> None:
    train(small_spec(signals=["csl"]), tmp_path / "run")
    table = read_table(tmp_path / "run")
    sums = table.read_rows("run", "csl")
    assert sums is not None
    assert sums.shape == (3, 48)
    assert table.frame["csl"].to_list() == pytest.approx(sums.mean(1).tolist(), rel=1e-5)
    assert (np.diff(sums, axis=0) > 0).all()
