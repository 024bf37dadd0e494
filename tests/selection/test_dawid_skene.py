"""Dawid and Skene's model against plain loops, and where it goes wrong."""

import math
import os
from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError
from rote.selection import select
from rote.selection.rules.dawid_skene import fit_dawid_skene
from tests.selection.tables import write_voters
from tests.selection.test_posterior import CLASSES, SAMPLES, holdout, write_holdout


def fit_with_loops(votes: np.ndarray, given: np.ndarray, rounds: int) -> list[list[list[float]]]:
    """The same model, one sample and one class at a time."""
    runs, samples, classes = votes.shape

    def vote(annotator: int, i: int, label: int) -> float:
        if annotator:
            return float(votes[annotator - 1, i, label])
        return float(given[i] == label)

    everybody = range(runs + 1)
    truth = []
    for i in range(samples):
        row = [sum(vote(r, i, k) for r in everybody) + 1 / classes for k in range(classes)]
        truth.append([value / sum(row) for value in row])
    terms: list[list[list[float]]] = []
    for _ in range(rounds):
        confusion = []
        for r in everybody:
            counts = [
                [
                    sum(truth[i][k] * vote(r, i, label) for i in range(samples)) + 1 / classes
                    for label in range(classes)
                ]
                for k in range(classes)
            ]
            confusion.append([[math.log(c / sum(row)) for c in row] for row in counts])
        share = [sum(row[k] for row in truth) / samples for k in range(classes)]
        terms = [
            [
                [
                    sum(vote(r, i, label) * confusion[r][k][label] for label in range(classes))
                    + (math.log(share[k]) if r == 0 else 0.0)
                    for k in range(classes)
                ]
                for i in range(samples)
            ]
            for r in everybody
        ]
        truth = []
        for i in range(samples):
            powers = [math.exp(sum(terms[r][i][k] for r in everybody)) for k in range(classes)]
            truth.append([power / sum(powers) for power in powers])
    return terms


def test_dawid_skene_equals_naive_expectation_maximization() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=20)
    votes = np.stack(
        [np.eye(3)[np.where(rng.random(20) < 0.8, truth, rng.integers(3, size=20))]] * 2
        + [rng.dirichlet(np.ones(3), 20)]
    )
    given = np.where(rng.random(20) < 0.7, truth, -1)
    found = fit_dawid_skene(votes, given, 4)
    assert found == pytest.approx(np.array(fit_with_loops(votes, given, 4)), abs=1e-9)


def test_independent_runs_are_scored_near_the_truth(tmp_path: Path) -> None:
    truth, given, predicted = holdout("pair")
    write_holdout(tmp_path, predicted, given)
    found = select(tmp_path, "dawid-skene")
    accuracy = (predicted == truth).mean(axis=2)
    run = int(found.pick.run.removeprefix("run"))
    assert accuracy[run, found.pick.step - 1] >= accuracy.max() - 0.03
    estimated = found.table.sort("run", "step")["estimated_accuracy"].to_numpy()
    assert np.abs(estimated - accuracy.ravel()).mean() < 0.05
    assert found.noise_rate == pytest.approx((given != truth).mean(), abs=0.05)


def test_runs_that_share_their_errors_outvote_the_labels(tmp_path: Path) -> None:
    truth, given, _ = holdout("symmetric")
    rng = np.random.default_rng(1)
    shared = np.where(rng.random(SAMPLES) < 0.6, truth, (truth + 1) % CLASSES)
    alike = np.stack([np.where(rng.random((6, SAMPLES)) < 0.95, shared, truth)] * 6)
    write_holdout(tmp_path, alike.astype(np.uint8), given)
    collapsed, posterior = (select(tmp_path, rule) for rule in ("dawid-skene", "posterior"))
    known = float((alike == truth).mean(axis=2).max())
    assert collapsed.estimated_accuracy is not None
    assert collapsed.estimated_accuracy > known + 0.2
    assert any("share their errors" in text for text in collapsed.warnings)
    guess = posterior.estimated_accuracy or posterior.pick.score
    assert guess is not None
    assert abs(guess - known) < collapsed.estimated_accuracy - known


FOREIGN = Path(os.environ.get("ROTE_DATA", "/work/shared/data")) / "cifar10_model_probabilities.npz"


@pytest.mark.skipif(not FOREIGN.is_file(), reason=f"needs {FOREIGN.name}, which is not committed")
@pytest.mark.parametrize("labels", ["aggre", "synthetic"])
def test_the_estimate_on_foreign_predictions_is_off_by_a_point(labels: str, tmp_path: Path) -> None:
    with np.load(FOREIGN) as arrays:
        predicted = arrays[f"{labels}_probabilities"].argmax(axis=2)
        given, truth = (arrays[f"{labels}_{kind}"].astype(np.int64) for kind in ("noisy", "true"))
    errors = []
    for draw in range(6):
        chosen = np.random.default_rng(draw).permutation(len(given))[:512]
        votes = predicted[:, None, chosen].astype(np.uint8)
        write_voters(tmp_path / str(draw), votes, 10, given=given[chosen])
        found = select(tmp_path / str(draw), "dawid-skene").table.sort("run")
        known = (predicted == truth).mean(axis=1)
        errors.append(np.abs(found["estimated_accuracy"].to_numpy() - known).mean())
    assert np.mean(errors) < 0.015


def test_missing_requirements_are_named(tmp_path: Path) -> None:
    _, _, predicted = holdout("symmetric")
    write_voters(tmp_path, predicted, CLASSES)
    with pytest.raises(InputError, match="needs the given labels"):
        select(tmp_path, "dawid-skene")
    with pytest.raises(InputError, match="`rounds`"):
        select(tmp_path, "dawid-skene", rounds=0)
