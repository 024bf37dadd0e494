"""What the stop rule is worth on runs whose test accuracy is known, such as those of `rote demo`.

    rote demo --seed 1 --out runs/demo-1
    python examples/stopping_pool.py runs/demo-1 ...

Regret: how far the kept checkpoint is below the best one of the same run, in accuracy points.
"""

import sys
from statistics import mean, quantiles

import rote
from rote.records import Reading
from rote.selection import select
from rote.store import read_run, read_table


def kept(readings: tuple[Reading, ...], train_accuracy: float) -> tuple[int, int]:
    """The step to keep, and the one at which training stops."""
    rule = rote.StopRule(train_accuracy=train_accuracy)
    for reading in readings:
        if rule.update(reading):
            break
    return rule.keep or readings[-1].step, reading.step


def main() -> None:
    """Compare what is kept with the last checkpoint, and with noisy validation within each run."""
    runs = [read_run(path).readings for path in read_table(sys.argv[1:]).paths.values()]
    print(f"{len(runs)} runs of {len(runs[0])} epochs\nkeeps" + " " * 27 + "mean  90 %  stops at")
    for threshold in (0.4, 0.5, 0.6, 0.7):
        found = [kept(readings, threshold) for readings in runs]
        stops = mean(stop for _, stop in found)
        show(f"StopRule(train_accuracy={threshold})", runs, [keep for keep, _ in found], stops)
    show("last", runs, [readings[-1].step for readings in runs], len(runs[0]))
    paths = read_table(sys.argv[1:]).paths.values()
    noisy = [select(path, rule="noisy-validation").pick.step for path in paths]
    show("noisy validation (needs labels)", runs, noisy, len(runs[0]))


def show(name: str, runs: list[tuple[Reading, ...]], steps: list[int], stops: float) -> None:
    """One row."""
    regrets = []
    for readings, step in zip(runs, steps, strict=True):
        test = {reading.step: 100 * reading.test_accuracy for reading in readings}
        regrets.append(max(test.values()) - test[step])
    print(f"{name:31} {mean(regrets):5.1f} {quantiles(regrets, n=10)[-1]:5.1f} {stops:9.1f}")


if __name__ == "__main__":
    main()
