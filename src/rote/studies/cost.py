"""The cost of a selector beyond training: passes, held-out samples, measured seconds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rote.selection import Draws

_FILE = Path(__file__).parent / "records" / "costs.json"
"""Written by ``benchmarks/costs.py``."""

_DRAWS = Draws(resamples=300)


@dataclass(frozen=True)
class Cost:
    """The cost of a selector, per epoch of one run.

    Attributes:
        passes: passes through the network beyond training, in words; empty if there are none.
        held_out: the number of samples kept out of training; None for the whole holdout.
        timed: names of the timings of ``benchmarks/costs.py`` to add up; ``pass_holdout`` is a
            pass of the holdout, whatever its size.
        needs: what else must be known, in words.
    """

    passes: str = ""
    held_out: int | None = 0
    timed: tuple[str, ...] = ()
    needs: str = ""

    def describe(self, pool: int, *, is_timed: bool) -> dict[str, Any]:
        """Return the cost as plain values; seconds only for pools whose networks were timed."""
        return {
            "passes": self.passes,
            "held_out": pool if self.held_out is None else self.held_out,
            "seconds": self.compute_seconds(pool) if is_timed else None,
            "needs": self.needs,
        }

    def compute_seconds(self, pool: int) -> list[float] | None:
        """Return the mean over networks, with an interval over them; None if not measured."""
        if not self.timed:
            return [0.0, 0.0, 0.0]
        networks = read_costs()["networks"].values()
        names = [f"pass_{pool}" if name == "pass_holdout" else name for name in self.timed]
        if not networks or any(name not in found for found in networks for name in names):
            return None
        values = np.array([sum(found[name] for name in names) for found in networks])
        drawn = _DRAWS.counts(len(values)) @ values / len(values)
        return [float(f"{end:.4g}") for end in (values.mean(), *np.quantile(drawn, [0.025, 0.975]))]


def has_timed(pool: int) -> bool:
    """Return whether networks were timed with a holdout of this size."""
    networks = read_costs()["networks"].values()
    return bool(networks) and all(f"pass_{pool}" in found for found in networks)


@cache
def read_costs() -> dict[str, Any]:
    """Read the file of ``benchmarks/costs.py``: seconds by network and name."""
    if not _FILE.is_file():
        return {"networks": {}}
    found: dict[str, Any] = json.loads(_FILE.read_bytes())
    return found
