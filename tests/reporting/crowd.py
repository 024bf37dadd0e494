"""More runs and checkpoints than a page can show, as a table: nothing is written."""

import numpy as np
import polars as pl

from rote.store import RunTable


def crowd(runs: int = 1_500, steps: int = 40) -> RunTable:
    """Runs that memorize at speeds of their own; one of them is far out, and has gaps."""
    rng = np.random.default_rng(3)
    step = np.tile(np.arange(1, steps + 1), runs)
    speed = np.repeat(rng.uniform(0.05, 0.5, runs), steps)
    memorized, learned = 1 - np.exp(-speed * step / 10), 1 - np.exp(-step / 5)
    zeta = memorized * speed + 0.01 * rng.random(len(step))
    zeta[7 * steps + 3] = 3.0
    zeta[7 * steps + 5] = np.nan
    columns = {
        "run": np.repeat([f"run-{i:05d}" for i in range(runs)], steps),
        "row": step - 1,
        "step": step,
        "susceptibility": zeta,
        "train_accuracy": 0.5 * learned + 0.45 * memorized,
        "test_accuracy": 0.9 * learned - 0.3 * memorized + 0.01 * rng.random(len(step)),
        "noisy_accuracy": memorized,
    }
    names = [f"run-{i:05d}" for i in range(runs)]
    return RunTable(pl.DataFrame(columns), {name: {"seed": i} for i, name in enumerate(names)})
