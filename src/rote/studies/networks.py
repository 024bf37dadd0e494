"""Trained networks of a pool, and the measurements on them that several studies share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.studies.checkpoints import DRAWS, list_values
from rote.studies.selector import estimate_mean

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from rote.store import RunTable
    from rote.studies.pool import Pool
    from rote.studies.study import Measured, Record
    from rote.workloads import Splits

NETWORKS = "networks"
"""The group of pools whose last weights are kept."""

MOST_STEPS = 1000
"""The maximum number of plain steps on one sample."""

CURVE = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""After how many of these steps curves say which share of samples is memorized."""

ALL = "all"
NEAR_CHANCE = 0.2
"""Twice the accuracy of guessing among the ten classes of all pools of networks."""
_MEMORIZED = 0.9
_LABELS_APART = {"noise": "none", "signals": []}
"""What the two networks of a pair may differ in: labels, and the signals that only noise needs."""
_NUMBERS = ("susceptibility", "train_accuracy", "noisy_accuracy", "test_accuracy")


@dataclass(frozen=True, eq=False)
class Network:
    """One network after its last epoch.

    Attributes:
        run: its name.
        twin: the settings that it shares with the network trained on other labels.
        model: in eval mode.
        splits: its training and test data.
        is_noisy: whether label noise was added.
        numbers: ζ and accuracies after the last epoch, where known.
    """

    run: str
    twin: str
    model: nn.Module
    splits: Splits
    is_noisy: bool
    numbers: Mapping[str, float]

    def load_test_set(self) -> tuple[Tensor, Tensor]:
        """Return unseen samples and their classes.

        Raises:
            InputError: if there are none.
        """
        if self.splits.test is None or self.splits.test_labels is None:
            raise InputError(f"The data of {self.run} have no test set.")
        return self.splits.test.batch(slice(None)), self.splits.test_labels


def load_networks(pool: Pool, table: RunTable, data_dir: Path | None) -> Iterator[Network]:
    """Load the networks of a pool one by one, in the order of their names.

    Raises:
        InputError: if the data are not there.
    """
    import polars as pl

    from rote.workloads import RunSpec, build_network, load_checkpoint, prepare

    for run in sorted(table.paths):
        spec = pool.specs[run]
        splits = prepare(spec, data_dir=data_dir)
        model = build_network(spec, splits)
        load_checkpoint(table.paths[run], spec.epochs, model)
        last = table.frame.filter(pl.col("run") == run).sort("step").to_dicts()[-1]
        yield Network(
            run=run,
            twin=RunSpec.from_dict(spec.to_dict() | _LABELS_APART).identity,
            model=model.eval(),
            splits=splits,
            is_noisy=spec.noise.model != "none",
            numbers={name: round(last[name], 5) for name in _NUMBERS if last.get(name) is not None},
        )


def load_pairs(
    pool: Pool, table: RunTable, data_dir: Path | None
) -> Iterator[tuple[Network, Network]]:
    """Yield pairs of networks with equal settings, trained on right and on noisy labels."""
    waiting: dict[str, Network] = {}
    for network in load_networks(pool, table, data_dir):
        other = waiting.pop(network.twin, None)
        if other is None:
            waiting[network.twin] = network
        else:
            yield (other, network) if network.is_noisy else (network, other)


def has_learned(numbers: Mapping[str, float]) -> bool:
    """Return whether a network is clearly better than chance; others are not judged."""
    return numbers["test_accuracy"] >= NEAR_CHANCE


def group_pairs(found: Sequence[Record]) -> dict[str, list[Record]]:
    """Return all pairs, and groups by whether the noisy-trained network memorized its labels.

    Pairs with a network near chance are left out, and so is a group that contains all others.
    """
    learned = [p for p in found if has_learned(p["clean"]) and has_learned(p["noisy"])]
    groups: dict[str, list[Record]] = {ALL: learned}
    for pair in learned:
        share = pair["noisy"]["noisy_accuracy"]
        name = "wrong labels memorized" if share >= _MEMORIZED else "memorized less than 90 %"
        groups.setdefault(name, []).append(pair)
    return {ALL: learned} if learned in list(groups.values())[1:] else groups


def measure_by_group(function: Callable[[list[Record]], Record]) -> Callable[[Measured], Record]:
    """Return the numbers of one group of pairs, by pool and group."""

    def measure(found: Measured) -> Record:
        groups = {pool: group_pairs(record["pairs"]) for pool, record in found}
        return {
            "pools": {
                pool.name: {
                    name: {**function(members), "lr": pool.one_sample_lr}
                    for name, members in of_pool.items()
                }
                for pool, of_pool in groups.items()
                if of_pool[ALL]
            }
        }

    return measure


def draw_wrong_labels(classes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a wrong class uniformly."""
    return (classes + rng.integers(1, count, size=len(classes))) % count


def count_steps_on_one(
    model: nn.Module,
    image: Tensor,
    label: int,
    *,
    lr: float,
    **how: Any,  # noqa: ANN401
) -> int:
    """Count plain steps on one sample until its label is predicted, at most MOST_STEPS."""
    from torch.optim import SGD

    from rote.probe import PlainStep, resistance

    found = resistance(
        model,
        SGD(model.parameters(), lr=lr),
        image[None],
        label,
        rule=PlainStep(lr),
        max_steps=MOST_STEPS,
        **how,
    )
    return MOST_STEPS if found.steps is None else found.steps


def compute_curves(steps: np.ndarray) -> Record:
    """Return the share of samples that are memorized after the steps of ``CURVE``.

    Args:
        steps: of shape (pairs, 2 for clean and noisy, samples).
    """
    return {
        side: [float((steps[:, place] <= most).mean()) for most in CURVE]
        for place, side in enumerate(("clean", "noisy"))
    }


def average_with_interval(values: np.ndarray) -> list[float | None]:
    """Return the mean over networks, with its interval."""
    return list_values(estimate_mean(np.asarray(values, dtype=np.float64), DRAWS))
