"""Runs made of numbers, for studies."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from rote.store import RunTable
from rote.studies import Pool
from rote.sweeps import SearchSpace

RUNS, LENGTH = 6, 24
COLUMNS = (
    *("susceptibility", "susceptibility_relative", "susceptibility_plain"),
    *("susceptibility_plain_relative", "train_accuracy", "test_accuracy", "clean_accuracy"),
    *("noisy_accuracy", "selc", "pmv", "gwa", "gradient_disparity", "label_wave"),
    *("aum_negative", "confident_learning"),
    *(f"noisy_validation_{n}" for n in (10, 128, 256, 512)),
    *(f"zeta_holdout_{size}_{seed}" for size in (10, 128) for seed in (0, 1, 2)),
    *(f"detector_{x}_{part}" for x in (80, 90, 96) for part in ("clean", "noisy")),
    *("aum", "csl", "weight_norm"),
)


def made_pool(base: Mapping[str, object] | None = None, **lists: object) -> Pool:
    """Six runs: three widths under two schedules, or other lists."""
    networks = {
        f"w{width}": {"architecture": {"name": "mlp", "options": {"width": width}}}
        for width in (8, 16, 128)
    }
    recipes = {name: {"schedule": {"name": name}} for name in ("none", "cosine")}
    noise = {"noise": {"model": "symmetric-inclusive", "rate": 0.5}}
    space = SearchSpace.from_dict(
        {
            "base": {"epochs": LENGTH, "data": {"name": "digits"}} | noise | dict(base or {}),
            "lists": lists or {"network": networks, "recipe": recipes},
        }
    )
    return Pool("made-0", "common", is_judged=True, space=space)


def made_table(pool: Pool, seed: int = 0) -> RunTable:
    """Random numbers in every column, of every run of a pool."""
    rng = np.random.default_rng(seed)
    names = sorted(pool.specs)
    frame = pl.DataFrame(
        {
            "run": np.repeat(names, LENGTH),
            "row": np.tile(np.arange(LENGTH), len(names)),
            "step": np.tile(np.arange(1, LENGTH + 1), len(names)),
            **{name: rng.random(LENGTH * len(names)) for name in COLUMNS},
        }
    )
    return RunTable(frame, {name: {} for name in names})
