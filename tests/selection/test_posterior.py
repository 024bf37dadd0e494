"""The posterior rule: its mathematics against loops, its picks against the truth."""

import json
from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError
from rote.selection import posterior, select
from rote.selection.posterior import Evidence, fit_belief, fit_noise
from rote.store import read_table
from rote.workloads import train
from tests.selection.tables import shuffled, write_voters
from tests.workloads.small_runs import small_spec

CLASSES, SAMPLES = 5, 400


def pool(noise: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The truth, given labels of which two in five are touched, and what six runs predict."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(CLASSES, size=SAMPLES)
    other = rng.integers(1, CLASSES, size=SAMPLES) if noise == "symmetric" else 1
    given = np.where(rng.random(SAMPLES) < 0.4, (truth + other) % CLASSES, truth)
    skill = np.linspace(0.3, 0.9, 6 * 4).reshape(4, 6).T
    guess = rng.integers(CLASSES, size=(6, 4, SAMPLES))
    predicted = np.where(rng.random((6, 4, SAMPLES)) < skill[..., None], truth, guess)
    return truth, given, predicted.astype(np.uint8)


def evidence(noise: str, seed: int = 0) -> tuple[np.ndarray, Evidence]:
    truth, given, predicted = pool(noise, seed)
    votes = np.stack([(predicted == k).mean(axis=(0, 1)) for k in range(CLASSES)], axis=1)
    return truth, Evidence(np.log(votes + 0.001), given, np.full(SAMPLES, -1))


def write_pool(root: Path, predicted: np.ndarray, given: np.ndarray) -> None:
    write_voters(root, predicted, CLASSES)
    for file in root.glob("*/run.json"):
        description = json.loads(file.read_text())
        file.write_text(json.dumps({**description, "given_labels": " ".join(map(str, given))}))


def test_posterior_and_likelihood_are_bayes_rule() -> None:
    _, known = evidence("symmetric")
    noise = fit_noise(known, "free", 0.3)
    for i in (0, 7, 31):
        powers = np.exp(noise.sharpness * known.log_votes[i] + noise.bias)
        prior = powers / powers.sum()
        joint = [prior[k] * noise.matrix[k, known.given[i]] for k in range(CLASSES)]
        assert noise.likelihood(known)[i] == pytest.approx(sum(joint))
        assert noise.posterior(known)[i] == pytest.approx(np.array(joint) / sum(joint))
    assert noise.matrix.sum(axis=1) == pytest.approx(np.ones(CLASSES))


def test_a_sample_without_a_label_keeps_its_prior_and_a_clean_one_is_certain() -> None:
    _, known = evidence("symmetric")
    given, clean = known.given.copy(), known.clean.copy()
    given[0], clean[1] = -1, 3
    changed = Evidence(known.log_votes, given, clean)
    noise = fit_noise(changed, "symmetric", 0.3)
    assert noise.posterior(changed)[0] == pytest.approx(noise.prior(known.log_votes)[0])
    assert noise.posterior(changed)[1].tolist() == [0, 0, 0, 1, 0]


def test_the_gradient_is_that_of_differences() -> None:
    rng = np.random.default_rng(1)
    votes = np.log(rng.dirichlet(np.ones(4), size=30) + 0.001)
    truth = rng.dirichlet(np.ones(4), size=30)
    at = rng.normal(size=5) / 3
    _, gradient, curvature = posterior._objective(votes, truth, at)
    for i in range(5):
        step = np.eye(5)[i] * 1e-5
        above = posterior._objective(votes, truth, at + step)[0]
        below = posterior._objective(votes, truth, at - step)[0]
        assert gradient[i] == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-6)
    assert (np.linalg.eigvalsh(curvature) > 0).all()


@pytest.mark.parametrize("noise", ["symmetric", "pair"])
def test_the_noise_is_found(noise: str) -> None:
    truth, known = evidence(noise)
    belief = fit_belief(known)
    assert belief.weights.sum() == pytest.approx(1)
    assert belief.votes_carry
    assert belief.rate == pytest.approx((known.given != truth).mean(), abs=0.05)
    if noise == "pair":
        assert belief.weights[0] < 0.05
        away = belief.matrix - np.diag(np.diag(belief.matrix))
        assert away.argmax(axis=1).tolist() == [1, 2, 3, 4, 0]
    chosen = belief.posterior(known).argmax(axis=1)
    assert (chosen == truth).mean() > max((known.given == truth).mean(), 0.9)


def test_votes_of_dice_carry_nothing() -> None:
    rng = np.random.default_rng(3)
    _, given, _ = pool("symmetric")
    votes = np.log(rng.dirichlet(np.ones(CLASSES), size=SAMPLES) + 0.001)
    assert not fit_belief(Evidence(votes, given, np.full(SAMPLES, -1))).votes_carry


@pytest.mark.parametrize("noise", ["symmetric", "pair"])
def test_the_pick_is_near_the_best_and_the_estimate_near_the_truth(
    noise: str, tmp_path: Path
) -> None:
    truth, given, predicted = pool(noise)
    write_pool(tmp_path, predicted, given)
    table = read_table(tmp_path)
    found = select(table, rule="posterior")
    accuracy = (predicted == truth).mean(axis=2)
    chosen = accuracy[int(found.pick.run.removeprefix("run")), found.pick.step - 1]
    assert chosen >= accuracy.max() - 0.02
    estimated = found.table.sort("run", "step")["estimated_accuracy"].to_numpy()
    assert np.abs(estimated - accuracy.ravel()).mean() < 0.05
    assert found.pick.interval is not None
    assert found.pick.score is not None
    assert found.pick.interval[0] < found.pick.score < found.pick.interval[1]
    assert "within 1 point of the best" in found.reasons[-1]
    again = select(shuffled(table, 1), rule="posterior")
    assert (again.pick.run, again.pick.step) == (found.pick.run, found.pick.step)
    told = select(table, rule="posterior", noise_rate=0.4)
    assert "%" in told.reasons[-1]


def test_where_votes_are_of_dice_the_labels_speak(tmp_path: Path) -> None:
    _, given, predicted = pool("symmetric")
    rng = np.random.default_rng(0)
    dice = rng.integers(CLASSES, size=predicted.shape).astype(np.uint8)
    write_pool(tmp_path, dice, given)
    found = select(tmp_path, rule="posterior")
    assert "say nothing about the given labels" in found.reasons[-1]
    best = (dice == given).mean(axis=2)
    assert found.pick.score == pytest.approx(best.max())
    assert "estimated_accuracy" not in found.table.columns


def test_what_it_lacks_is_said(tmp_path: Path) -> None:
    _, given, predicted = pool("symmetric")
    write_voters(tmp_path / "a", predicted, CLASSES)
    with pytest.raises(InputError, match="the given labels of their pool .* got none"):
        select(tmp_path / "a", rule="posterior")
    write_pool(tmp_path / "b", predicted, given)
    file = next((tmp_path / "b").glob("*/run.json"))
    other = {**json.loads(file.read_text()), "given_labels": " ".join(map(str, given[::-1]))}
    file.write_text(json.dumps(other))
    with pytest.raises(InputError, match="the same given labels of their pool, got different"):
        select(tmp_path / "b", rule="posterior")
    with pytest.raises(InputError, match="`noise_rate` to be a number from 0 to 1, got 2"):
        select(tmp_path / "b", rule="posterior", noise_rate=2)


def test_runs_record_the_given_labels_and_older_ones_have_them_in_their_data(
    tmp_path: Path,
) -> None:
    train(small_spec(epochs=1), tmp_path / "run")
    new = read_table(tmp_path / "run")
    (name,) = new.descriptions
    labels = new.given_labels(name)
    assert labels is not None
    assert len(labels) == 12
    file = tmp_path / "run" / "run.json"
    description = json.loads(file.read_text())
    del description["given_labels"]
    file.write_text(json.dumps(description))
    assert np.array_equal(read_table(tmp_path / "run").given_labels(name), labels)
