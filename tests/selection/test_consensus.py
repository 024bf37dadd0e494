"""Consensus, against its definition taken literally."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rote.errors import InputError
from rote.selection import choose, find_rule, make_candidates, select, votes
from rote.store import read_table
from tests.selection.tables import shuffled, write_voters

Votes = list[list[list[float]]]


def literally(predictions: np.ndarray, num_classes: int, rounds: int) -> list[list[float]]:
    """definitions.md §4, sample by sample."""
    runs, checkpoints, samples = predictions.shape
    weights = [[1.0] * checkpoints for _ in range(runs)]
    scores = [[0.0] * checkpoints for _ in range(runs)]
    for _ in range(rounds):
        largest = max(max(row) for row in weights)
        votes: Votes = []
        for run in range(runs):
            scale = max(weights[run]) / largest
            total = sum(weights[run])
            mean = [[0.0] * num_classes for _ in range(samples)]
            for checkpoint in range(checkpoints):
                for sample in range(samples):
                    if total:
                        share = weights[run][checkpoint] / total * scale
                        mean[sample][predictions[run, checkpoint, sample]] += share
            votes.append(mean)
        for run in range(runs):
            seen = [label_of(votes, run, sample, num_classes) for sample in range(samples)]
            for checkpoint in range(checkpoints):
                row = predictions[run, checkpoint]
                scores[run][checkpoint] = sum(map(int.__eq__, row.tolist(), seen)) / samples
        weights = [[weight(a, num_classes, samples) for a in row] for row in scores]
        if not any(map(any, weights)):
            break
    return scores


def label_of(votes: Votes, run: int, sample: int, num_classes: int) -> int:
    counts = [
        math.fsum(votes[other][sample][label] for other in range(len(votes)) if other != run)
        for label in range(num_classes)
    ]
    return next(label for label, count in enumerate(counts) if count >= max(counts) - 1e-9)


def weight(agreement: float, num_classes: int, samples: int) -> float:
    a = min(max(agreement, 0.5 / samples), 1 - 0.5 / samples)
    return max(0.0, math.log(a * (num_classes - 1) / (1 - a))) ** 2


@st.composite
def polls(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    shape = (draw(st.integers(2, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 9)))
    num_classes = draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    truth = rng.integers(num_classes, size=shape[2])
    wrong = rng.random(shape) < rng.random((shape[0], shape[1], 1))
    return np.where(wrong, rng.integers(num_classes, size=shape), truth), num_classes


@settings(deadline=None, max_examples=60)
@given(polls(), st.integers(1, 6), st.sampled_from([1, 1 << 20]))
def test_scores_are_those_of_the_definition(
    tmp_path_factory: pytest.TempPathFactory,
    poll: tuple[np.ndarray, int],
    rounds: int,
    block: int,
) -> None:
    predictions, num_classes = poll
    root = tmp_path_factory.mktemp("holdout")
    write_voters(root, predictions, num_classes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(votes, "_BLOCK", block)
        selection = select(root, "consensus", rounds=rounds)
    expected = np.array(literally(predictions, num_classes, rounds))
    np.testing.assert_array_equal(selection.table["score"].to_numpy(), expected.ravel())
    assert selection.pick.score == expected.max()


def noisy_copies(seed: int = 0) -> np.ndarray:
    """Runs of rising quality: checkpoint c is wrong on a share 0.8 − c/10 of the samples."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(10, size=400)
    wrong = rng.random((6, 8, 400)) < (0.8 - np.arange(8) / 10)[None, :, None]
    return np.where(wrong, rng.integers(10, size=wrong.shape), truth)


def test_the_most_accurate_is_found_without_labels(tmp_path: Path) -> None:
    write_voters(tmp_path, noisy_copies(), 10)
    selection = select(tmp_path, "consensus")
    assert selection.pick.step == 8
    assert selection.pick.interval is not None
    assert "vote of the other 5 runs" in selection.reasons[1].text
    assert selection.warnings == ()


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    write_voters(tmp_path, noisy_copies(), 10)
    table = read_table(tmp_path)
    one, other = select(table, "consensus"), select(shuffled(table, 1), "consensus")
    assert one.pick == other.pick
    assert one.table.sort("run", "step").equals(other.table.sort("run", "step"))


def test_runs_with_another_holdout_are_skipped_with_a_warning(tmp_path: Path) -> None:
    write_voters(tmp_path, noisy_copies(), 10)
    write_voters(tmp_path / "other", noisy_copies(1)[:2], 10, holdout="other")
    with pytest.raises(InputError, match="2 groups that differ in holdout .6 runs"):
        select(tmp_path, "consensus")
    table = read_table(tmp_path)
    selection = choose(find_rule("consensus"), make_candidates(table, "susceptibility"))
    assert "2 of 8 runs have no predictions on the holdout that the other 6 share" in " ".join(
        selection.warnings
    )
    assert selection.table["score"].null_count() == 2 * 8


def test_two_runs_give_a_warning(tmp_path: Path) -> None:
    write_voters(tmp_path, noisy_copies()[:2], 10)
    assert "Only 2 runs vote" in " ".join(select(tmp_path, "consensus").warnings)


def test_weak_agreement_gives_a_warning(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    write_voters(tmp_path, rng.integers(10, size=(5, 4, 300)), 10)
    assert "less than half of the holdout" in " ".join(select(tmp_path, "consensus").warnings)


def test_agreement_needs_several_runs(tmp_path: Path) -> None:
    write_voters(tmp_path, noisy_copies()[:1], 10)
    with pytest.raises(
        InputError, match="2 runs with predictions on the same holdout, and there are 1"
    ):
        select(tmp_path, "consensus")


@pytest.mark.parametrize("value", [0, -1, 2.5])
def test_rounds_are_a_positive_integer(value: object) -> None:
    with pytest.raises(InputError, match=f"`rounds` to be an integer of at least 1, got {value}"):
        select("unread", "consensus", rounds=value)
