"""What the stop rule is worth on runs whose test accuracy is known, such as those of `rote demo`.

    rote demo --seed 1 --out runs/demo-1
    python examples/stopping_pool.py runs/demo-1 ...

Regret: how far the kept checkpoint is below the best one of the same run, in accuracy points.
"""

import json
import sys
from pathlib import Path
from statistics import mean, quantiles

import rote
from rote.records import Reading
from rote.store import read_run, read_table


def main() -> None:
    """Replay the rule on every run, by each thing that it can go by, beside the last checkpoint."""
    paths = list(read_table(sys.argv[1:]).paths.values())
    runs = [read_run(path).readings for path in paths]
    rules = {
        "noisy validation (given labels)": [rote.StopRule() for _ in runs],
        "noise_rate": [rote.StopRule(noise_rate=rate) for rate in map(noise_rate, paths)],
    }
    for high in (0.4, 0.5, 0.6, 0.7):
        by_zeta = rote.StopRule(train_accuracy=high, column="susceptibility")
        rules[f"ζ, train_accuracy={high}"] = [by_zeta for _ in runs]
    print(f"{len(runs)} runs of {len(runs[0])} epochs\nkeeps" + " " * 27 + "mean  90 %  stops at")
    for name, chosen in rules.items():
        found = [rule.replay(readings) for rule, readings in zip(chosen, runs, strict=True)]
        stops = mean(stop or runs[0][-1].step for _, stop in found)
        show(name, runs, [keep for keep, _ in found], stops)
    show("last", runs, [readings[-1].step for readings in runs], len(runs[0]))


def noise_rate(run: Path) -> float:
    """Return the share of wrong labels, which a run of a spec knows."""
    described = json.loads((run / "workload.json").read_text())
    return float(described["data"]["noise"]["realized_rate"])


def show(name: str, runs: list[tuple[Reading, ...]], steps: list[int], stops: float) -> None:
    """One row."""
    regrets = []
    for readings, step in zip(runs, steps, strict=True):
        test = {reading.step: 100 * reading.test_accuracy for reading in readings}
        regrets.append(max(test.values()) - test[step])
    print(f"{name:31} {mean(regrets):5.1f} {quantiles(regrets, n=10)[-1]:5.1f} {stops:9.1f}")


if __name__ == "__main__":
    main()
