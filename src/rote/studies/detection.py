"""Detectors of label errors, judged on data with known true labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rote.selection import rank_label_errors, rank_out_of_sample, rank_suspects
from rote.store import LABELS_FILE, read_out_of_sample, read_rows, read_run

if TYPE_CHECKING:
    from pathlib import Path

    from rote.studies.noisy_sets import TrainedSet

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

OURS, ONE_RUN = "rote, 5 folds", "rote, no folds"
CONFIDENCE, MARGIN = "cleanlab, self-confidence", "cleanlab, normalized margin"
AUM, CSL, CONFIDENT = "AUM", "CSL", "confident learning, in-sample"
NEIGHBORS, NOTHING = "nearest neighbors, as SimiFeat", "flag nothing"
METHODS = (OURS, CONFIDENCE, MARGIN, NEIGHBORS, ONE_RUN, AUM, CSL, CONFIDENT, NOTHING)
MEASURES = ("auroc", "average_precision", "precision_at_errors", "weighted_f1")


@dataclass(frozen=True, eq=False)
class Detection:
    """The scores of a method for samples.

    Attributes:
        score: suspicion, higher for likely label errors.
        flagged: whether the method flags the sample as mislabeled; None if it only ranks.
    """

    score: Floats
    flagged: Booleans | None = None

    def take(self, rows: Integers) -> Detection:
        """Return the scores of some of the samples."""
        flagged = None if self.flagged is None else self.flagged[rows]
        return Detection(self.score[rows], flagged)

    def judge(self, is_wrong: Booleans) -> dict[str, float | None]:
        """Measure the ranking and the flags against the truth."""
        from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

        first = np.argsort(-self.score, kind="stable")[: int(is_wrong.sum())]
        weighted = None
        if self.flagged is not None:
            weighted = float(f1_score(is_wrong, self.flagged, average="weighted", zero_division=0))
        has_order = np.ptp(self.score) > 0
        share = float(is_wrong.mean())
        return {
            "auroc": float(roc_auc_score(is_wrong, self.score)),
            "average_precision": float(average_precision_score(is_wrong, self.score)),
            "precision_at_errors": float(is_wrong[first].mean()) if has_order else share,
            "weighted_f1": weighted,
        }


def compute_self_confidence(labels: Integers, probabilities: Floats) -> Floats:
    """Return the probability of the given label, cleanlab's ``self_confidence``."""
    return np.asarray(probabilities[np.arange(len(labels)), labels])


def compute_normalized_margin(labels: Integers, probabilities: Floats) -> Floats:
    """Return cleanlab's ``normalized_margin``: (p of the label − the largest other p + 1) / 2."""
    others = probabilities.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    return np.asarray((compute_self_confidence(labels, probabilities) - others.max(axis=1) + 1) / 2)


def find_cleanlab_issues(labels: Integers, probabilities: Floats) -> Booleans | None:
    """Return what ``find_label_issues`` flags; None if cleanlab is not installed."""
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        return None
    return np.asarray(find_label_issues(labels, probabilities, n_jobs=1), dtype=bool)


def detect_by_probabilities(labels: Integers, probabilities: Floats) -> dict[str, Detection]:
    """Return cleanlab's scores for out-of-sample probabilities."""
    flagged = find_cleanlab_issues(labels, probabilities)
    return {
        CONFIDENCE: Detection(-compute_self_confidence(labels, probabilities), flagged),
        MARGIN: Detection(-compute_normalized_margin(labels, probabilities), flagged),
    }


def detect(runs: TrainedSet) -> tuple[dict[str, Detection], Booleans]:
    """Score the training samples of the runs without folds with every method.

    Returns:
        The scores by method, and which labels are wrong.
    """
    found = read_out_of_sample(runs.folds)
    assert found is not None  # the runs have folds
    assert found.neighbors is not None  # every run records them
    errors = rank_out_of_sample(found)
    said = {OURS: Detection(errors.probability, errors.probability > 0.5)}
    said |= detect_by_probabilities(found.labels, found.best_probabilities)
    shares = compute_self_confidence(found.labels, found.neighbors)
    votes = found.neighbors.argmax(axis=1) != found.labels
    said[NEIGHBORS] = Detection(-shares, votes)
    first, _ = next(iter(runs.plain.values()))
    with np.load(first / LABELS_FILE) as division:
        chosen, wrong = division["train"].astype(np.int64), division["wrong"].astype(bool)
    judged = {name: one.take(chosen) for name, one in said.items()}
    judged |= _detect_in_sample([path for path, _ in runs.plain.values()], chosen)
    judged[NOTHING] = Detection(np.zeros(len(chosen)), np.zeros(len(chosen), bool))
    return judged, wrong[chosen]


def _detect_in_sample(plain: list[Path], chosen: Integers) -> dict[str, Detection]:
    """Return scores of training samples by the signals of runs without folds."""
    margins = {name: _average_rows(plain, name) for name in ("aum", "csl", "confident_learning")}
    (ranking,) = rank_suspects(plain)
    places = {int(sample): at for at, sample in enumerate(chosen)}
    ours = np.zeros(len(chosen))
    for entry in ranking.samples:
        if entry.split == "train":
            ours[places[entry.sample]] = entry.probability
    aum, confident = margins["aum"], np.nan_to_num(margins["confident_learning"], nan=1.0)
    return {
        ONE_RUN: Detection(ours, ours > 0.5),
        AUM: Detection(-aum, aum < 0),
        CSL: Detection(margins["csl"]),
        CONFIDENT: Detection(-confident, confident < 0),
    }


def _average_rows(plain: list[Path], name: str) -> Floats:
    """Return a signal's row of samples, averaged over runs at their best validation accuracy."""
    rows = []
    for path in plain:
        record = read_run(path)
        found = read_rows(record, name)
        assert found is not None  # the runs record these signals
        best = int(np.argmax([reading.validation_accuracy or 0.0 for reading in record.readings]))
        rows.append(np.asarray(found[best], dtype=np.float64))
    return np.asarray(np.mean(rows, axis=0))


def detect_foreign(
    labels: Integers, truth: Integers, predicted: Floats
) -> dict[str, dict[str, Any]]:
    """Judge rankings by the probabilities of networks that were trained elsewhere.

    Args:
        labels: the given labels.
        truth: the true labels.
        predicted: networks × samples × classes.
    """
    errors = rank_label_errors(labels, predicted)
    said = {OURS: Detection(errors.probability, errors.probability > 0.5)}
    said |= detect_by_probabilities(labels, predicted.mean(axis=0))
    said[NOTHING] = Detection(np.zeros(len(labels)), np.zeros(len(labels), bool))
    return {name: one.judge(labels != truth) for name, one in said.items()}
