"""What every rule has cost in our pools, from the committed leaderboard.

``python -P benchmarks/rule_costs.py`` reads docs/results/leaderboard.json and writes
src/rote/selection/rule_costs.json, which the verdict quotes. Only pools count on which nothing was
chosen.
"""

import json
from pathlib import Path
from typing import Any

from rote.studies.figures.leaderboard import list_selectors

ROOT = Path(__file__).parents[1]
LEADERBOARD = ROOT / "docs" / "results" / "leaderboard.json"
COSTS = ROOT / "src" / "rote" / "selection" / "rule_costs.json"
_GROUPS = ("judged", "fresh")
_VALIDATION = "noisy validation, n = 256"  # the largest that every pool has
_ONE_RUN = {"posterior": "auto, one run alone"}  # with nearest-neighbor votes


def compute_costs(record: dict[str, Any]) -> dict[str, Any]:
    """Return the points of test accuracy that every rule has lost, by rule and situation."""
    pools = [record["pools"][name] for group in _GROUPS for name in record["groups"][group]]
    rows = {entry.rule: entry.name for entry in list_selectors(0.5, None) if ":" not in entry.rule}
    rows = {rule: name for rule, name in rows.items() if rule not in ("auto", "oracle")}
    rows["noisy-validation"] = _VALIDATION
    rules = {}
    for rule, name in sorted(rows.items()):
        found = {
            "one_run": _mean_points(pools, _ONE_RUN.get(rule, name), "regret"),
            "all_runs": _mean_points(pools, name, "pool"),
        }
        rules[rule] = {situation: lost for situation, lost in found.items() if lost is not None}
    return {"pools": len(pools), "rules": {rule: found for rule, found in rules.items() if found}}


def _mean_points(pools: list[dict[str, Any]], row: str, measure: str) -> float | None:
    """Return the mean over all pools; None if one of them does not have it."""
    found = [pool["rows"].get(row, {}).get(measure) for pool in pools]
    if any(value is None for value in found):
        return None
    return round(100 * sum(value[0] for value in found) / len(found), 2)


if __name__ == "__main__":
    costs = compute_costs(json.loads(LEADERBOARD.read_text(encoding="utf-8")))
    COSTS.write_text(json.dumps(costs, indent=1) + "\n", encoding="utf-8")
    print(f"Wrote {COSTS} ({len(costs['rules'])} rules).")
