"""How strong the evidence behind a selection is, and what its rule has cost in our pools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rote.selection.rule import about

if TYPE_CHECKING:
    from rote.selection.rule import Decision, Grade, Rule

COSTS_FILE = "rule_costs.json"
"""Made from docs/results/leaderboard.json by ``python -P benchmarks/rule_costs.py``."""


@dataclass(frozen=True)
class Evidence:
    """How far the data behind a selection can be trusted.

    Attributes:
        grade: ``strong``, ``fair`` or ``weak``.
        basis: the data that the rule used, in words.
        points_lost: how many points of test accuracy the rule has lost on average in our pools;
            None if it was not measured there.
        pools: in how many pools.
        is_one_run: whether that was within one run, or among all runs of a pool.
    """

    grade: Grade
    basis: str
    points_lost: float | None = None
    pools: int = 0
    is_one_run: bool = False

    @property
    def cost(self) -> str:
        """Return the measured cost of the rule as a sentence; empty if it was not measured."""
        if self.points_lost is None:
            return ""
        among = "within one run" if self.is_one_run else "among all runs of a pool"
        return (
            f"In our {self.pools} pools this rule lost {self.points_lost:.1f} points on "
            f"average, {among}."
        )

    @property
    def text(self) -> str:
        """Return grade, basis and cost in one line."""
        basis = f" ({self.basis})" if self.basis else ""
        return f"{self.grade}{basis}" + (f". {self.cost}" if self.cost else "")


def grade_evidence(rule: Rule, decision: Decision, runs: int) -> Evidence:
    """Grade the evidence behind a decision.

    Args:
        rule: the rule that decided.
        decision: what it decided.
        runs: among how many runs.

    Returns:
        The grade, with what the data were and what the rule has cost in our pools.
    """
    grade = decision.evidence or about(rule).evidence
    basis = next((r.facts["because"] for r in decision.why if "because" in r.facts), "")
    costs = _read_costs()
    measured = costs["rules"].get(rule.name, {})
    within = runs == 1
    lost = measured.get("one_run" if within else "all_runs")
    return Evidence(grade, basis, lost, costs["pools"] if lost is not None else 0, within)


@cache
def _read_costs() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        files("rote.selection").joinpath(COSTS_FILE).read_text(encoding="utf-8")
    )
    return found
