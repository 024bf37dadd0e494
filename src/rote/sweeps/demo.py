"""The pool of the demo: small networks of many kinds on digits with noisy labels."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.selection import RULES, Selection, select
from rote.store import read_table
from rote.workloads import RunSpec

_NETWORKS: dict[str, dict[str, Any]] = {
    "mlp-narrow": {"name": "mlp", "options": {"width": 32, "depth": 1}},
    "mlp-wide": {"name": "mlp", "options": {"width": 512, "depth": 1}},
    "mlp-deep": {"name": "mlp", "options": {"width": 128, "depth": 3}},
    "mlp-deep-bn": {"name": "mlp", "options": {"width": 128, "depth": 3, "batch_norm": True}},
    "mlp-dropout": {"name": "mlp", "options": {"width": 256, "depth": 2, "dropout": 0.5}},
    "cnn-narrow": {"name": "cnn", "options": {"width": 8, "depth": 3}},
    "cnn-wide": {"name": "cnn", "options": {"width": 24, "depth": 3}},
    "cnn-no-bn": {"name": "cnn", "options": {"width": 16, "depth": 3, "batch_norm": False}},
    "cnn-dropout": {"name": "cnn", "options": {"width": 16, "depth": 3, "dropout": 0.3}},
}

_RECIPES: dict[str, dict[str, Any]] = {
    "fast": {
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
        "schedule": {"name": "cosine"},
    },
    "slow": {
        "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
        "schedule": {"name": "exponential", "gamma": 0.95},
    },
    "adam": {"optimizer": {"name": "adam", "lr": 0.002}, "schedule": {"name": "none"}},
}


def make_demo_specs(*, epochs: int, seed: int, noise: float) -> list[RunSpec]:
    """Return every network with every recipe, on digits.

    Args:
        epochs: the number of epochs of each run.
        seed: the seed of data, noise and weights.
        noise: the share of labels that are resampled uniformly over all classes, as in the paper.
    """
    shared = {
        "epochs": epochs,
        "batch": 64,
        "seed": seed,
        "data": {"name": "digits", "seed": seed},
        "noise": {"model": "symmetric-inclusive", "rate": noise},
        "checkpoints": {"keep": "all", "resume_every": epochs},
    }
    return [
        RunSpec.from_dict(
            shared | recipe | {"name": f"{network}-{name}", "architecture": architecture}
        )
        for (network, architecture), (name, recipe) in product(_NETWORKS.items(), _RECIPES.items())
    ]


@dataclass(frozen=True)
class Comparison:
    """The checkpoints that all rules would keep, with their true accuracy.

    Attributes:
        verdict: the selection of the default rule.
        selections: by the name of the rule, without rules that need further arguments.
        checkpoints: the number of candidates.
        best: the best test accuracy of them all.
    """

    verdict: Selection
    selections: Mapping[str, Selection]
    checkpoints: int
    best: float


def compare_rules(runs: Sequence[Path], *, column: str) -> Comparison:
    """Let every rule choose among runs whose test accuracy is known."""
    table = read_table(runs)
    verdict = select(table, column=column)
    selections = {}
    for rule in RULES:
        with suppress(InputError):
            is_told = rule == verdict.rule
            selections[rule] = verdict if is_told else select(table, rule=rule, column=column)
    return Comparison(
        verdict=verdict,
        # A rule that delegates to another one gives the same result.
        selections={rule: one for rule, one in selections.items() if one.rule == rule},
        checkpoints=len(table.frame),
        best=float(table.frame["test_accuracy"].to_numpy().max()),
    )
