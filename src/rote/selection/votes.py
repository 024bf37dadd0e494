"""The votes of runs on the samples of a shared holdout."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.errors import InputError

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats, Integers

_TIE = 1e-9
_BLOCK = 1 << 20
_MOST_KEPT = 1 << 24
"""Predictions of a ballot that are kept in memory; of more, those of one run at a time."""


@dataclass(frozen=True)
class Ballot:
    """Who votes on what. Where predictions are many, one run's are in memory at a time.

    Attributes:
        candidates: all checkpoints.
        voters: positions of those that vote, by run.
        num_classes: the number of classes.
        samples: the number of predictions each of them makes.
    """

    candidates: Candidates
    voters: Integers
    num_classes: int
    samples: int

    @classmethod
    def of(cls, candidates: Candidates, runs: set[str]) -> Ballot:
        """Return the checkpoints of some runs that share a holdout."""
        member = np.array([name in runs for name in candidates.runs])
        description = candidates.table.descriptions[min(runs)]
        return cls(
            candidates,
            np.flatnonzero(member[candidates.run]),
            int(description["num_classes"]),
            math.prod(description["holdout"]["predictions"]),
        )

    @property
    def num_runs(self) -> int:
        """How many runs vote."""
        return len(np.unique(self.candidates.run[self.voters]))

    def agreement(self, rounds: int) -> Floats:
        """Return the share of the holdout on which each voter agrees with the other runs."""
        weight = np.ones(len(self.voters))
        share = np.zeros(len(self.voters))
        for _ in range(rounds):
            total = np.zeros((self.samples, self.num_classes))
            for part, predictions in self.by_run():
                total += self._vote(predictions, weight[part], weight.max())
            for part, predictions in self.by_run():
                others = total - self._vote(predictions, weight[part], weight.max())
                is_top = others >= others.max(axis=1, keepdims=True) - _TIE
                share[part] = (predictions == is_top.argmax(axis=1)).mean(axis=1)
            weight = vote_weights(share, self.num_classes, self.samples)
            if not weight.any():
                break  # no run is better than chance: all votes count the same
        return share

    def votes(self, weight: Floats) -> Votes:
        """Return what every run votes, if its checkpoints weigh so much."""
        each = np.empty((self.num_runs, self.samples, self.num_classes), dtype=np.float32)
        for number, (part, rows) in enumerate(self.by_run()):
            each[number] = self._vote(rows, weight[part], weight.max())
        return Votes(each, each.sum(axis=0, dtype=np.float64))

    def weights(self, share: Floats) -> Floats:
        """Weigh the next votes by the share of the holdout on which a voter is right."""
        return vote_weights(share, self.num_classes, self.samples)

    def by_run(self) -> Iterator[tuple[slice, npt.NDArray[np.unsignedinteger]]]:
        """For every run its voters, and what they predict, voters × samples."""
        yield from self._kept or self._read()

    @cached_property
    def _kept(self) -> tuple[tuple[slice, npt.NDArray[np.unsignedinteger]], ...]:
        """The same in memory, where that is little: every rule goes over it several times."""
        return tuple(self._read()) if len(self.voters) * self.samples <= _MOST_KEPT else ()

    def _read(self) -> Iterator[tuple[slice, npt.NDArray[np.unsignedinteger]]]:
        chosen = self.candidates.take(self.voters)
        for part in chosen.by_run():
            recorded = chosen.table.read_predictions(chosen.runs[chosen.run[part.start]])
            assert recorded is not None
            yield part, recorded[chosen.row[part]].reshape(-1, self.samples)

    def _vote(
        self, predictions: npt.NDArray[np.unsignedinteger], weight: Floats, largest: float
    ) -> Floats:
        """Return samples × classes."""
        if not weight.any():
            return np.zeros((self.samples, self.num_classes))
        votes = np.zeros(self.samples * self.num_classes)
        cell = np.arange(self.samples) * self.num_classes
        share = weight / weight.sum()
        block = max(1, _BLOCK // self.samples)
        for start in range(0, len(predictions), block):
            rows = predictions[start : start + block]
            each = np.repeat(share[start : start + block], self.samples)
            votes += np.bincount((cell + rows).ravel(), weights=each, minlength=len(votes))
        return np.asarray(votes.reshape(self.samples, -1) * (weight.max() / largest))


@dataclass(frozen=True)
class Votes:
    """The votes of runs.

    Attributes:
        each: runs × samples × classes.
        total: their sum.
    """

    each: npt.NDArray[np.float32]
    total: Floats

    def shares(self, without: int | None = None) -> Floats:
        """Return the share of votes that each class has, samples × classes.

        Args:
            without: a run whose votes do not count.
        """
        left = self.total if without is None else np.maximum(self.total - self.each[without], 0.0)
        return np.asarray(left / np.maximum(left.sum(axis=1, keepdims=True), _TIE))

    def parts(self) -> Floats:
        """Return the part of all votes that each run has."""
        return np.asarray(
            self.each.sum(axis=(1, 2), dtype=np.float64) / max(self.total.sum(), _TIE)
        )


def find_shared_holdout(candidates: Candidates, least: int = 2) -> tuple[set[str], tuple[str, ...]]:
    """Return the runs with predictions on the holdout that most of them share, and who is left out.

    Args:
        candidates: all checkpoints.
        least: how many are enough; one is only if no other has predictions.

    Raises:
        InputError: if they share no holdout.
    """
    holdouts: dict[str, tuple[object, ...]] = {}
    for part in candidates.by_run():
        name = candidates.runs[candidates.run[part.start]]
        description = candidates.table.descriptions.get(name, {})
        predictions = candidates.table.read_predictions(name)
        if predictions is not None and len(predictions) > candidates.row[part].max():
            holdout = description["holdout"]
            # In an edited run.json the hash may be anything, or missing.
            holdout_hash = repr(holdout.get("hash", name))
            holdouts[name] = (holdout_hash, *holdout["predictions"], description["num_classes"])
    counts = Counter(holdouts.values())
    shared = max(counts, key=lambda holdout: (counts[holdout], str(holdout)), default=None)
    voters = {name for name, holdout in holdouts.items() if holdout == shared}
    if len(voters) < (least if len(holdouts) == 1 else 2):
        raise InputError(
            "Voting needs 2 runs with predictions on the same holdout, and there are "
            f"{len(voters)}. Track them with the same `inputs`, more than one probe batch, or use "
            "another rule."
        )
    out = candidates.num_runs - len(voters)
    if not out:
        return voters, ()
    return voters, (
        f"{out} of {candidates.num_runs} runs have no predictions on the holdout that the other "
        f"{len(voters)} share, and were left out.",
    )


def vote_weights(share: Floats, num_classes: int, samples: int) -> Floats:
    """Return what votes weigh, by the share of samples on which a voter is right."""
    # One half of a sample short of always right keeps the logarithm finite.
    bounded = np.clip(share, 0.5 / samples, 1 - 0.5 / samples)
    log_odds = np.log(bounded * (num_classes - 1) / (1 - bounded))
    return np.asarray(np.maximum(0.0, log_odds) ** 2)
