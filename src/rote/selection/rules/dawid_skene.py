"""Dawid and Skene's model: one confusion matrix per run, and one for the given labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.arguments import check_integer
from rote.errors import InputError
from rote.selection.label_noise import TINY, UNKNOWN
from rote.selection.rule import Decision, Findings, Reason
from rote.selection.rules.noisy_validation import compute_wilson_interval
from rote.selection.rules.posterior import read_given_labels
from rote.selection.votes import Ballot, find_shared_holdout

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats, Integers
    from rote.selection.rule import Grade

_CONVERGED = 1e-6
_COLLAPSED = 0.99
"""A mean agreement of runs and posterior above which runs may have outvoted the given labels."""


@dataclass(frozen=True)
class DawidSkene:
    """The highest accuracy by Dawid and Skene's model of runs and given labels.

    Every run is an annotator with a confusion matrix, and so are the given labels. Expectation
    maximization alternates between the true classes and the matrices (Dawid and Skene 1979). A run
    votes with the mean of its checkpoints' one-hot predictions. The score of a checkpoint is the
    mean posterior of its predictions, with its own run left out of the posterior.

    The model takes the errors of runs as independent. Where runs share their errors, they outvote
    the given labels, and the estimate is too high: ``posterior`` fits how far to trust the votes.

    Attributes:
        rounds: the most rounds of expectation maximization.

    Raises:
        InputError: if it is not a positive integer.
    """

    rounds: int = 100
    name: ClassVar[str] = "dawid-skene"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = True
    evidence: ClassVar[Grade] = "fair"
    not_resampled: ClassVar[str] = "A run that is drawn twice would vote on itself."
    order: ClassVar[int] = 260

    def __post_init__(self) -> None:
        check_integer("rounds", self.rounds, least=1)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the highest estimate.

        Raises:
            InputError: if no two runs have predictions on the same holdout, or it has no labels.
        """
        voters, warnings = find_shared_holdout(candidates)
        ballot = Ballot.of(candidates, voters)
        given = read_given_labels(candidates, voters, ballot)
        labels = int((given != UNKNOWN).sum())
        if not labels:
            raise InputError(
                "Rule 'dawid-skene' needs the given labels of the holdout, and the runs have none. "
                "Pass given_labels= to rote.track, or use rule `consensus`."
            )
        votes = ballot.votes(np.ones(len(ballot.voters))).each.astype(np.float64)
        log_terms = fit_dawid_skene(votes, given, self.rounds)
        accuracy = np.full(len(candidates), np.nan)
        everybody = log_terms.sum(axis=0)
        for run, (part, rows) in enumerate(ballot.by_run()):
            truth = _normalize(everybody - log_terms[run + 1])
            at = np.arange(ballot.samples)
            accuracy[ballot.voters[part]] = truth[at, rows].mean(axis=1)
        pick = candidates.best(accuracy, ballot.voters)
        truth = _normalize(everybody)
        known = np.flatnonzero(given != UNKNOWN)
        rate = float(1 - truth[known, given[known]].mean())
        reason = Reason(
            "choice",
            f"The selected checkpoint, {candidates.name(pick)}, has the highest accuracy by Dawid "
            f"and Skene's model of {ballot.num_runs} runs and {labels} given labels: "
            f"{accuracy[pick]:.1%}.",
            {"estimated_accuracy": float(accuracy[pick]), "labels": labels},
        )
        return Decision(
            pick,
            (reason,),
            warnings=(*warnings, *_warn_of_collapse(votes, truth)),
            score=accuracy,
            interval=compute_wilson_interval(float(accuracy[pick]), ballot.samples),
            columns={"estimated_accuracy": accuracy},
            findings=Findings(noise_rate=rate, labels=labels),
        )


def fit_dawid_skene(votes: Floats, given: Integers, rounds: int) -> Floats:
    """Fit the model by expectation maximization.

    Args:
        votes: runs × samples × classes; the votes of a run on a sample sum to at most 1.
        given: the given labels, −1 where there is none.
        rounds: the most iterations.

    Returns:
        The terms whose sum is the log posterior of the true class up to a constant per sample:
        (1 + runs) × samples × classes, first of class frequencies and given labels, then of runs.
    """
    runs, samples, classes = votes.shape
    labels = np.eye(classes + 1, classes)[given]  # nothing where there is no label
    annotators = np.concatenate((labels[None], votes))
    # Samples × all possible answers: one matrix product then serves all annotators.
    said = annotators.transpose(1, 0, 2).reshape(samples, -1)
    truth = annotators.sum(axis=0) + 1 / classes
    truth /= truth.sum(axis=1, keepdims=True)
    for _ in range(rounds):
        counts = (said.T @ truth).reshape(runs + 1, classes, classes) + 1 / classes
        log_confusion = np.log(counts / counts.sum(axis=1, keepdims=True))
        frequency = np.log(np.maximum(truth.mean(axis=0), TINY))
        before, truth = truth, _normalize(said @ log_confusion.reshape(-1, classes) + frequency)
        if np.abs(truth - before).max() < _CONVERGED:
            break
    terms = annotators @ log_confusion
    terms[0] += frequency
    return np.asarray(terms)


def _normalize(log_terms: Floats) -> Floats:
    powers = np.exp(log_terms - log_terms.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _warn_of_collapse(votes: Floats, truth: Floats) -> tuple[str, ...]:
    if len(votes) < 3 or float((truth.max(axis=1)).mean()) < _COLLAPSED:
        return ()
    return (
        "The model is nearly certain of every true class. If the runs share their errors, this "
        "estimate is too high; compare with rule `posterior`.",
    )
