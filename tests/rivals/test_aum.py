"""AUM and prediction changes against sums written out, as columns and per sample."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from rote.errors import InputError
from rote.rivals.aum import Aum
from rote.store import read_table
from rote.tracking import Batch
from rote.workloads import train
from tests.workloads.small_runs import small_spec


def naive(epochs: list[list[list[float]]], labels: list[int]) -> tuple[list[float], list[int]]:
    """The mean margin of every sample, and how often its arg max changed."""
    areas, changes = [], []
    for sample, label in enumerate(labels):
        margins, predicted = [], []
        for logits in epochs:
            others = [value for k, value in enumerate(logits[sample]) if k != label]
            margins.append(logits[sample][label] - max(others))
            predicted.append(int(np.argmax(logits[sample])))
        areas.append(sum(margins) / len(margins))
        changes.append(sum(a != b for a, b in pairwise(predicted)))
    return areas, changes


@settings(max_examples=50, deadline=None)
@given(data=st.data(), samples=st.integers(1, 6), epochs=st.integers(1, 5))
def test_equals_sums_written_out(data: st.DataObject, samples: int, epochs: int) -> None:
    logit = st.integers(-8, 8).map(float)
    row = st.lists(logit, min_size=3, max_size=3)
    said = [data.draw(st.lists(row, min_size=samples, max_size=samples)) for _ in range(epochs)]
    labels = data.draw(st.lists(st.integers(0, 2), min_size=samples, max_size=samples))
    signal = Aum(samples)
    signal.start(None)  # type: ignore[arg-type]  # it asks for nothing when it knows the size
    for logits in said:
        order = torch.tensor(data.draw(st.permutations(range(samples))))
        for at in order.split(2):
            given, shown = torch.tensor(labels)[at], torch.tensor(logits)[at]
            signal.observe(Batch(given, shown, indices=at))
            for tensor in (given, shown, at):
                tensor.zero_()  # a loop may use its tensors again
        if data.draw(st.booleans()):  # or else samples are seen twice between readings
            again = Aum(samples)
            again.start(None)  # type: ignore[arg-type]
            again.load_state_dict(signal.state_dict())
            signal = again
    areas, changes = naive(said, labels)
    read, rows = signal.read(epochs), signal.rows()
    assert rows["aum"] == pytest.approx(np.array(areas), rel=1e-5)
    assert rows["prediction_changes"].tolist() == changes
    for sample, label in enumerate(labels):
        last = said[-1][sample]
        rival = int(rows["aum_rival"][sample])
        assert rival != label
        assert last[rival] == max(value for k, value in enumerate(last) if k != label)
    assert read["aum"] == pytest.approx(np.mean(areas))
    assert read["aum_negative"] == pytest.approx(np.mean(np.array(areas) < 0))
    assert read["prediction_changes"] == pytest.approx(np.mean(changes))


def test_many_logits_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, at = torch.randn(40, 3, generator=generator), torch.arange(40) % 8
    found = []
    for at_once in (1, 50, 10_000):
        monkeypatch.setattr("rote.tracking.signals.AT_ONCE", at_once)
        signal = Aum(8)
        signal.start(None)  # type: ignore[arg-type]
        for part in torch.arange(40).split(7):
            signal.observe(Batch(at[part] % 3, logits[part], indices=at[part]))
        found.append((signal.read(1), signal.rows()["prediction_changes"].tolist()))
    assert found[0] == found[1] == found[2]


def test_samples_never_seen_have_no_margin() -> None:
    signal = Aum(4)
    signal.start(None)  # type: ignore[arg-type]
    at = torch.tensor([0, 2, 3])
    logits = torch.tensor([[1.0, 3.0], [0.0, 5.0], [7.0, 7.0]])
    signal.observe(Batch(torch.tensor([1, 0, -100]), logits, indices=at))
    assert signal.read(1) == {"aum": -1.5, "aum_negative": 0.5, "prediction_changes": 0.0}
    assert np.isnan(signal.rows()["aum"]).tolist() == [False, True, False, True]


def test_without_a_size_there_are_columns_and_no_rows() -> None:
    signal = Aum()
    assert signal.read(1) == {}
    signal.observe(Batch(torch.tensor([0]), torch.tensor([[2.0, 0.5]]), indices=torch.tensor([3])))
    assert signal.read(2)["aum"] == 1.5
    assert signal.rows() == {}
    with pytest.raises(InputError, match="Pass `indices` to tracker.observe"):
        signal.observe(Batch(torch.tensor([0]), torch.tensor([[2.0, 0.5]])))
    with pytest.raises(InputError, match="`samples` to be an integer of at least 1, got 0"):
        Aum(0)


def test_a_run_of_a_spec_records_rows_for_the_samples_it_trains_on(tmp_path: Path) -> None:
    train(small_spec(signals=["aum"]), tmp_path / "run")
    table = read_table(tmp_path / "run")
    areas = table.read_rows("run", "aum")
    assert areas is not None
    assert areas.shape == (3, 48)
    assert table.frame["aum"].to_list() == pytest.approx(areas.mean(1).tolist(), rel=1e-5)
    changes = table.read_rows("run", "prediction_changes")
    assert changes is not None
    assert (np.diff(changes.astype(int), axis=0) >= 0).all()
    assert changes[0].sum() == 0
