"""Confident learning against the loop of its definition, and against cleanlab where it is."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from rote.rivals.confident_learning import ConfidentLearning, compute_losing_margins
from rote.store import read_table
from rote.tracking import Batch
from rote.workloads import train
from tests.rivals.signals import over_a_copy
from tests.workloads.small_runs import small_spec


def naive(labels: np.ndarray, shares: np.ndarray) -> list[float | None]:
    """The confident class of each sample, one by one; the margin where it is not the label."""
    classes = range(shares.shape[1])
    means = [shares[labels == k, k].mean() if (labels == k).any() else 2.0 for k in classes]
    found: list[float | None] = []
    for label, row in zip(labels, shares, strict=True):
        confident = [k for k in classes if row[k] >= means[k] - 1e-6]
        guess = int(row.argmax()) if len(confident) > 1 else (confident or [label])[0]
        loses = guess != label and row.argmax() != label
        found.append(row[label] - row[guess] if loses else None)
    return found


def draw(seed: int, samples: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=samples)
    given = np.where(rng.random(samples) < 0.3, rng.integers(classes, size=samples), truth)
    logits = rng.normal(size=(samples, classes)) + 2 * np.eye(classes)[truth]
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return given, shares


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 6))
def test_equals_the_loop_of_the_definition(seed: int, samples: int, classes: int) -> None:
    labels, shares = draw(seed, samples, classes)
    margins = compute_losing_margins(labels, shares)
    expected = naive(labels, shares)
    assert np.isnan(margins).tolist() == [value is None for value in expected]
    known = [value for value in expected if value is not None]
    np.testing.assert_allclose(margins[~np.isnan(margins)], known, rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_finds_what_cleanlab_finds(seed: int) -> None:
    reason = "needs cleanlab: pip install 'rote[cleanlab]'"
    filters = pytest.importorskip("cleanlab.filter", reason=reason)
    labels, shares = draw(seed, 600, 4)
    theirs = filters.find_label_issues(labels, shares, filter_by="confident_learning", n_jobs=1)
    assert np.isfinite(compute_losing_margins(labels, shares)).tolist() == theirs.tolist()


# Found by cleanlab 2.9.0, find_label_issues(filter_by="confident_learning"), in draw(0, 40, 3).
FOUND_BY_CLEANLAB = [28, 31, 33, 35, 38, 39]


def test_finds_what_cleanlab_found() -> None:
    labels, shares = draw(0, 40, 3)
    found = np.flatnonzero(np.isfinite(compute_losing_margins(labels, shares)))
    assert found.tolist() == FOUND_BY_CLEANLAB


def test_the_latest_probabilities_of_a_sample_count() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    labels = torch.tensor([0, 1, 0, 0, 0])
    at = torch.tensor([0, 1, 2, 3, 2])  # sample 2 is seen twice, and agrees the second time
    batches = [Batch(labels[p], logits[p], indices=at[p]) for p in (slice(3), slice(3, 5))]
    whole, half = over_a_copy(lambda: ConfidentLearning(4), batches, after=1)
    assert whole == half == {"confident_learning": 0.0}
    signal = ConfidentLearning(4)
    signal.observe(batches[0])
    assert signal.read(1) == {"confident_learning": pytest.approx(1 / 3)}
    assert signal.read(2) == {}


def test_run_of_a_spec_records_rejected_labels(tmp_path: Path) -> None:
    train(small_spec(signals=["confident_learning"]), tmp_path / "run")
    table = read_table(tmp_path / "run")
    margins = table.read_rows("run", "confident_learning")
    assert margins is not None
    assert margins.shape == (3, 48)
    shares = np.isfinite(margins).mean(1)
    np.testing.assert_allclose(table.frame["confident_learning"].to_numpy(), shares)
    assert (margins[np.isfinite(margins)] < 0).all()
