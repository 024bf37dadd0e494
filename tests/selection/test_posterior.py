"""The posterior rule: its mathematics against loops, its picks against the truth."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError
from rote.selection import label_noise, make_candidates, select
from rote.selection.clean_accuracy import Labels, estimate_accuracy
from rote.selection.label_noise import Observations, VotePrior, fit_belief, fit_noise
from rote.selection.votes import Ballot
from rote.store import read_table
from rote.workloads import train
from tests.selection.tables import shuffled, write_voters
from tests.workloads.small_runs import small_spec

CLASSES, SAMPLES = 5, 400


def holdout(noise: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The truth, given labels of which two in five are touched, and what six runs predict."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(CLASSES, size=SAMPLES)
    other = rng.integers(1, CLASSES, size=SAMPLES) if noise == "symmetric" else 1
    given = np.where(rng.random(SAMPLES) < 0.4, (truth + other) % CLASSES, truth)
    skill = np.linspace(0.3, 0.9, 6 * 4).reshape(4, 6).T
    guess = rng.integers(CLASSES, size=(6, 4, SAMPLES))
    predicted = np.where(rng.random((6, 4, SAMPLES)) < skill[..., None], truth, guess)
    return truth, given, predicted.astype(np.uint8)


def evidence(noise: str, seed: int = 0) -> tuple[np.ndarray, Observations]:
    truth, given, predicted = holdout(noise, seed)
    votes = np.stack([(predicted == k).mean(axis=(0, 1)) for k in range(CLASSES)], axis=1)
    return truth, Observations(np.log(votes + 0.001), given, np.full(SAMPLES, -1))


def write_holdout(root: Path, predicted: np.ndarray, given: np.ndarray) -> None:
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
    changed = Observations(known.log_votes, given, clean)
    noise = fit_noise(changed, "symmetric", 0.3)
    assert noise.posterior(changed)[0] == pytest.approx(noise.prior(known.log_votes)[0])
    assert noise.posterior(changed)[1].tolist() == [0, 0, 0, 1, 0]


def test_the_gradient_is_that_of_differences() -> None:
    rng = np.random.default_rng(1)
    votes = np.log(rng.dirichlet(np.ones(4), size=30) + 0.001).T
    votes -= votes.max(axis=0)
    truth = rng.dirichlet(np.ones(4), size=30).T
    at = rng.normal(size=5) / 3
    prior = VotePrior.of(votes, at)
    wanted = prior.statistics(truth)
    loss = -(truth * np.log(prior.p)).sum() + (at @ at) / 2
    assert prior.value(wanted) == pytest.approx(-loss)
    for i in range(5):
        step = np.eye(5)[i] * 1e-5
        above, below = (VotePrior.of(votes, at + way * step) for way in (1, -1))
        slope = (above.value(wanted) - below.value(wanted)) / 2e-5
        assert prior.gradient(wanted)[i] == pytest.approx(slope, rel=1e-4, abs=1e-6)
        bend = (below.gradient(wanted) - above.gradient(wanted)) / 2e-5
        expected = prior.curvature[i].copy()
        expected[0] -= (prior.gradient(wanted)[0] + at[0]) * (i == 0)  # Fisher's leaves it out
        assert bend == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert (np.linalg.eigvalsh(prior.curvature) > 0).all()


def test_any_sharpness_is_accepted() -> None:
    votes = np.array([[0.0, -1.0, 0.0], [-7.0, 0.0, -7.0]])
    truth = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]])
    wild = VotePrior.of(votes, np.array([300.0, 0.0, 0.0]))
    assert wild.p.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert -np.inf < wild.value(wild.statistics(truth)) < -1e40
    assert np.isfinite(wild.fit(truth).at).all()


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


def test_cached_fit_is_used_for_equal_data_only() -> None:
    _, known = evidence("pair")
    anew = label_noise._fit_belief(known, 0.3)
    asked = [
        fit_belief(Observations(known.log_votes.copy(), known.given, known.clean)) for _ in "ab"
    ]
    assert asked[0] is asked[1]
    np.testing.assert_array_equal(asked[0].matrix, anew.matrix)
    np.testing.assert_array_equal(asked[0].weights, anew.weights)
    other = known.given.copy()
    other[0] = (other[0] + 1) % CLASSES
    changed = Observations(known.log_votes, other, known.clean)
    assert fit_belief(changed).gain == label_noise._fit_belief(changed, 0.3).gain != asked[0].gain
    assert fit_belief(known, 0.1).rate == label_noise._fit_belief(known, 0.1).rate
    assert len(label_noise._remembered) <= label_noise._MOST_REMEMBERED


def test_random_votes_carry_no_information() -> None:
    rng = np.random.default_rng(3)
    _, given, _ = holdout("symmetric")
    votes = np.log(rng.dirichlet(np.ones(CLASSES), size=SAMPLES) + 0.001)
    assert not fit_belief(Observations(votes, given, np.full(SAMPLES, -1))).votes_carry


@pytest.mark.parametrize("noise", ["symmetric", "pair"])
def test_the_pick_is_near_the_best_and_the_estimate_near_the_truth(
    noise: str, tmp_path: Path
) -> None:
    truth, given, predicted = holdout(noise)
    write_holdout(tmp_path, predicted, given)
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
    assert found.confidence is not None
    assert found.expected_loss is not None
    assert 0 <= found.expected_loss < 0.1
    assert [reason.kind for reason in found.reasons] == ["rule", "choice", "estimate", "limits"]
    assert "Systematic label errors" in found.reasons[-1].text
    assert found.evidence.grade == "strong"  # six runs, 400 labels
    again = select(shuffled(table, 1), rule="posterior")
    assert (again.pick.run, again.pick.step) == (found.pick.run, found.pick.step)
    assert found.noise_rate == pytest.approx((given != truth).mean(), abs=0.04)
    assert (found.noise_matrix is None) == (noise == "symmetric")
    wrong = {suspect.sample for suspect in found.suspects}
    assert len(wrong & set(np.flatnonzero(given != truth))) > 0.9 * len(wrong) > 100
    for suspect in found.suspects:
        assert suspect.given == given[suspect.sample] != suspect.believed
        assert suspect.probability > 0.5
    told = select(table, rule="posterior", noise_rate=0.4)
    assert told.noise_rate == pytest.approx(0.4, abs=0.05)


def test_labels_decide_where_votes_are_random(tmp_path: Path) -> None:
    _, given, predicted = holdout("symmetric")
    rng = np.random.default_rng(0)
    dice = rng.integers(CLASSES, size=predicted.shape).astype(np.uint8)
    write_holdout(tmp_path, dice, given)
    found = select(tmp_path, rule="posterior")
    assert "do not predict the given labels" in found.reasons[1].text
    assert found.noise_rate is None
    best = (dice == given).mean(axis=2)
    assert found.pick.score == pytest.approx(best.max())
    told = select(tmp_path).summary.rule
    assert "labels; the votes do not predict these labels, so the labels alone decide)." in told
    assert "estimated_accuracy" not in found.table.columns


@pytest.mark.parametrize("kind", ["symmetric", "one-rate", "free"])
def test_the_fit_is_where_plain_rounds_end(kind: str) -> None:
    _, known = evidence("pair")
    found = fit_noise(known, kind, 0.3)
    guess = label_noise._Guess.of(
        label_noise._Samples.of(known), label_noise._make_first_guess(kind, CLASSES, 0.3)
    )
    for _ in range(600):
        guess = guess.improve(0.3)
    plain = guess.noise
    assert found.sharpness == pytest.approx(plain.sharpness, rel=0.01)
    assert found.rate == pytest.approx(plain.rate, abs=0.002)
    assert found.bias == pytest.approx(plain.bias, abs=0.02)
    assert found.matrix == pytest.approx(plain.matrix, abs=0.005)


def test_resampling_equals_a_loop_over_samples_and_labels(tmp_path: Path) -> None:
    _, given, predicted = holdout("symmetric")
    write_holdout(tmp_path, predicted, given)
    candidates = make_candidates(read_table(tmp_path), "susceptibility")
    runs = set(candidates.runs)
    found = estimate_accuracy(Ballot.of(candidates, runs), Labels(given, np.full(SAMPLES, -1)))
    spread = found.resample(20, last=9)
    low, high = spread.interval
    rng = random.Random(0)
    held = {at: truth for part, _, truth in found.by_run() for at in range(part.start, part.stop)}
    flat = predicted.reshape(-1, SAMPLES)
    assert [found.accuracy[c] for c in (0, 20)] == pytest.approx(
        [np.mean([held[c][i, flat[c, i]] for i in range(SAMPLES)]) for c in (0, 20)]
    )
    expected = np.array([held[c][range(SAMPLES), flat[c]] for c in range(len(flat))])
    drawn, near, better, below = [], 0, 0, []
    for _ in range(400):
        right = np.zeros(len(flat))
        for i in rng.choices(range(SAMPLES), k=SAMPLES):
            (label,) = rng.choices(range(CLASSES), weights=found.truth[i].tolist())
            right += expected[:, i] - found.truth[i, flat[:, i]] + (flat[:, i] == label)
        drawn.append(right[20] / SAMPLES)
        wide = found.accuracy + 1.5 * (right / SAMPLES - found.accuracy)
        near += wide[20] >= wide.max() - 0.01
        better += wide[20] > wide[9]
        below.append(wide.max() - wide[20])
    # On top of what draws show comes the error of the model, a standard deviation of 0.09.
    pick = found.accuracy[20]
    ends = np.hypot(np.quantile(drawn, [0.025, 0.975]) - pick, 1.96 * 0.09)
    assert [low, high] == pytest.approx([pick - ends[0], min(1.0, pick + ends[1])], abs=0.015)
    assert spread.confidence == pytest.approx(near / 400, abs=0.1)
    assert spread.beats_last == pytest.approx(better / 400, abs=0.1)
    assert spread.expected_loss == pytest.approx(np.mean(below), abs=0.01)
    assert found.resample(20, last=20).beats_last is None


def test_the_fit_is_the_highest_likelihood() -> None:
    _, known = evidence("symmetric")
    found = fit_noise(known, "symmetric", 0.3)

    def loss(at: np.ndarray) -> float:
        b, bias, rate = np.exp(at[0]), at[1:-1], 1 / (1 + np.exp(-at[-1]))
        total = 30 * np.log(rate) + 70 * np.log(1 - rate) - (bias @ bias + at[0] ** 2) / 2
        for votes, label in zip(known.log_votes, known.given, strict=True):
            powers = np.exp(b * votes + bias)
            right = powers[label] / powers.sum()
            total += np.log(right * (1 - rate) + (1 - right) * rate / (CLASSES - 1))
        return float(-total)

    odds = np.log(found.rate / (1 - found.rate))
    at = np.array([np.log(found.sharpness), *found.bias, odds])
    for place in range(len(at)):
        for step in (-0.02, 0.02):
            moved = at.copy()
            moved[place] += step
            assert loss(moved) > loss(at)


def test_uninformative_votes_do_not_outweigh_one_good_run(tmp_path: Path) -> None:
    """Its own votes make all votes sharp; those of the others must not be read as sharply."""
    rng = np.random.default_rng(0)
    truth = rng.choice(CLASSES, size=SAMPLES, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    given = np.where(rng.random(SAMPLES) < 0.3, rng.integers(CLASSES, size=SAMPLES), truth)
    predicted = np.zeros((4, 4, SAMPLES), dtype=np.uint8)  # the most frequent class
    is_right = rng.random((3, SAMPLES)) < 0.8
    predicted[0, 1:] = np.where(is_right, truth, rng.integers(CLASSES, size=(3, SAMPLES)))
    write_holdout(tmp_path, predicted, given)
    found = select(tmp_path, rule="posterior")
    assert (found.pick.run, found.pick.step > 1) == ("run0", True)
    estimated = found.table.sort("run", "step")["estimated_accuracy"].to_numpy()
    assert estimated[0] == pytest.approx((truth == 0).mean(), abs=0.1)


def test_rate_of_zero_does_not_divide_by_zero(tmp_path: Path) -> None:
    _, given, predicted = holdout("symmetric")
    write_holdout(tmp_path, predicted, given)
    found = select(tmp_path, rule="posterior", noise_rate=0.0)
    assert np.isfinite(found.table["estimated_accuracy"].to_numpy()).all()
    assert found.noise_rate is not None


def test_classes_and_runs_have_no_order_and_a_double_is_judged_alike(tmp_path: Path) -> None:
    _, given, predicted = holdout("pair")
    predicted = np.concatenate([predicted, predicted[:1]])
    write_holdout(tmp_path / "a", predicted, given)
    found = estimates(tmp_path / "a", predicted)
    assert found[0] == pytest.approx(found[-1])
    order = np.array([3, 1, 0, 6, 2, 5, 4])
    write_holdout(tmp_path / "runs", predicted[order], given)
    assert estimates(tmp_path / "runs", predicted) == pytest.approx(found[order], abs=1e-3)
    other = np.array([2, 4, 0, 3, 1])
    write_holdout(tmp_path / "classes", other[predicted].astype(np.uint8), other[given])
    assert estimates(tmp_path / "classes", predicted) == pytest.approx(found, abs=1e-3)
    places = np.random.default_rng(0).permutation(SAMPLES)
    write_holdout(tmp_path / "samples", predicted[..., places], given[places])
    # Other folds: the kinds of noise are weighed a little differently.
    assert estimates(tmp_path / "samples", predicted) == pytest.approx(found, abs=0.02)


def estimates(root: Path, predicted: np.ndarray) -> np.ndarray:
    table = select(root, rule="posterior").table.sort("run", "step")
    return table["estimated_accuracy"].to_numpy().reshape(predicted.shape[:2])


def test_unlabeled_samples_count_as_votes_only(tmp_path: Path) -> None:
    truth, given, predicted = holdout("symmetric")
    hidden = given.copy()
    hidden[::2] = -1
    write_holdout(tmp_path, predicted, hidden)
    found = estimates(tmp_path, predicted)
    assert np.abs(found - (predicted == truth).mean(axis=2)).mean() < 0.05
    suspects = select(tmp_path, rule="posterior").suspects
    assert suspects
    assert all(suspect.sample % 2 for suspect in suspects)


def test_clean_labels_are_certain(tmp_path: Path) -> None:
    truth, given, predicted = holdout("pair")
    write_holdout(tmp_path, predicted, given)
    found = select(tmp_path, rule="posterior", clean_labels=truth)
    right = (predicted == truth).mean(axis=2)
    table = found.table.sort("run", "step")["estimated_accuracy"].to_numpy()
    assert table == pytest.approx(right.ravel())
    assert {s.sample for s in found.suspects} == set(np.flatnonzero(given != truth))
    assert all(s.believed == truth[s.sample] for s in found.suspects)
    some = np.where(np.arange(SAMPLES) < 50, truth, -1)
    few = select(tmp_path, rule="posterior", clean_labels=some.tolist())
    assert not any(s.sample < 50 and given[s.sample] == truth[s.sample] for s in few.suspects)
    with pytest.raises(InputError, match="`clean_labels` .* each of the 400 samples .* got 3"):
        select(tmp_path, rule="posterior", clean_labels=[1, 2, -1])
    with pytest.raises(InputError, match="`clean_labels` to be classes from 0 to 4, got 5"):
        select(tmp_path, rule="posterior", clean_labels=truth + 1)
    with pytest.raises(InputError, match="`clean_labels` to be a row of integers"):
        select(tmp_path, rule="posterior", clean_labels=[0.5])


def test_clean_labels_suffice_without_given_labels(tmp_path: Path) -> None:
    truth, _, predicted = holdout("symmetric")
    write_voters(tmp_path, predicted, CLASSES)
    some = np.where(np.arange(SAMPLES) < 100, truth, -1)
    found = select(tmp_path, rule="posterior", clean_labels=some)
    accuracy = (predicted == truth).mean(axis=2)
    estimated = found.table.sort("run", "step")["estimated_accuracy"].to_numpy()
    assert np.abs(estimated - accuracy.ravel()).mean() < 0.05
    assert found.suspects == ()


def test_one_run_is_judged_by_nearest_neighbor_votes(tmp_path: Path) -> None:
    truth, given, predicted = holdout("symmetric")
    write_holdout(tmp_path, predicted[:1], given)
    with pytest.raises(InputError, match="or one with nearest-neighbor votes"):
        select(tmp_path, rule="posterior")
    rng = np.random.default_rng(5)
    guess = rng.integers(CLASSES, size=(SAMPLES, 10))
    near = np.where(rng.random((SAMPLES, 10)) < 0.5, truth[:, None], guess)
    votes = np.stack([(near == k).mean(axis=1) for k in range(CLASSES)], axis=1)
    np.save(tmp_path / "h-0" / "neighbor_votes.npy", votes.astype(np.float32))
    found = select(tmp_path, rule="posterior")
    assert "the votes of the nearest training samples" in found.reasons[2].text
    estimated = found.table.sort("step")["estimated_accuracy"].to_numpy()
    assert estimated == pytest.approx((predicted[0] == truth).mean(axis=1), abs=0.1)
    np.save(tmp_path / "h-0" / "neighbor_votes.npy", rng.dirichlet(np.ones(CLASSES), SAMPLES))
    other = select(tmp_path, rule="posterior")
    assert "nearest training samples do not predict the given labels" in other.reasons[1].text


def test_one_run_alone_is_corrected_as_defined(tmp_path: Path) -> None:
    truth, given, predicted = holdout("pair")
    write_holdout(tmp_path, predicted[:1], given)
    rng = np.random.default_rng(5)
    near = np.where(
        rng.random((SAMPLES, 10)) < 0.5, truth[:, None], rng.integers(CLASSES, size=(SAMPLES, 10))
    )
    votes = np.stack([(near == k).mean(axis=1) for k in range(CLASSES)], axis=1)
    candidates = make_candidates(read_table(tmp_path), "susceptibility")
    nothing = np.full(SAMPLES, -1)
    found = estimate_accuracy(Ballot.of(candidates, {"run0"}), Labels(given, nothing), votes)
    pick = int(found.accuracy.argmax())
    reproduced = 0.0
    for weight, noise in zip(found.belief.weights, found.belief.noises, strict=True):
        posterior = noise.posterior(found.everybody)
        q = [posterior[i, predicted[0, pick, i]] for i in range(SAMPLES)]
        alpha = 0.5
        for _ in range(60):
            alpha = np.mean(
                [p * alpha / (p * alpha + (1 - p) * (1 - alpha) / (CLASSES - 1)) for p in q]
            )
        reproduced += weight * alpha

    def logit(share: float) -> float:
        return math.log(share / (1 - share))

    wanted = 0.02 + 0.84 * logit(found.accuracy[pick]) + 0.25 * logit(reproduced)
    corrected = found.correct(pick)
    assert logit(corrected[pick]) == pytest.approx(wanted, abs=1e-6)
    assert (np.argsort(corrected) == np.argsort(found.accuracy)).all()
    low, high = found.resample(pick).interval
    assert low < corrected[pick] < high
    clean = estimate_accuracy(Ballot.of(candidates, {"run0"}), Labels(given, truth), votes)
    assert clean.correct(pick) == pytest.approx(clean.accuracy)  # nothing is guessed
    np.save(tmp_path / "h-0" / "neighbor_votes.npy", votes.astype(np.float32))
    selection = select(tmp_path)
    assert selection.evidence.grade == "fair"
    assert selection.estimated_accuracy == pytest.approx(corrected[pick], abs=1e-4)


def test_systematic_label_errors_are_hinted_at(tmp_path: Path) -> None:
    truth, _, predicted = holdout("symmetric")
    rule = np.where(truth == 2, 3, truth)  # a systematic annotator, and networks that learned it
    seen = np.where(predicted == 2, 3, predicted).astype(np.uint8)
    write_holdout(tmp_path, seen, rule)
    silent = select(tmp_path, rule="posterior")
    assert any("or their errors are systematic" in text for text in silent.warnings)
    told = select(tmp_path, rule="posterior", noise_rate=float((rule != truth).mean()))
    assert any("many label errors are systematic" in text for text in told.warnings)
    clean = np.where(np.arange(SAMPLES) < 60, truth, -1)
    sure = select(tmp_path, rule="posterior", clean_labels=clean)
    assert any("miss more of the clean labels" in text for text in sure.warnings)
    _, given, predicted = holdout("symmetric")
    write_holdout(tmp_path / "plain", predicted, given)
    plain = select(tmp_path / "plain", rule="posterior", noise_rate=0.4, clean_labels=clean)
    assert not any("systematic" in text for text in plain.warnings)


def test_missing_evidence_is_named(tmp_path: Path) -> None:
    _, given, predicted = holdout("symmetric")
    write_voters(tmp_path / "a", predicted, CLASSES)
    with pytest.raises(InputError, match="needs the given labels of the holdout"):
        select(tmp_path / "a", rule="posterior")
    write_holdout(tmp_path / "b", predicted, given)
    file = next((tmp_path / "b").glob("*/run.json"))
    other = {**json.loads(file.read_text()), "given_labels": " ".join(map(str, given[::-1]))}
    file.write_text(json.dumps(other))
    with pytest.raises(InputError, match="they form 2 groups"):
        select(tmp_path / "b", rule="posterior")
    with pytest.raises(InputError, match="`noise_rate` to be a number from 0 to 1, got 2"):
        select(tmp_path / "b", rule="posterior", noise_rate=2)


def test_runs_record_the_given_labels(tmp_path: Path) -> None:
    train(small_spec(epochs=1), tmp_path / "run")
    new = read_table(tmp_path / "run")
    (name,) = new.descriptions
    labels = new.read_given_labels(name)
    assert labels is not None
    assert len(labels) == 12
