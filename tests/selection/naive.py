"""Every rule a second time, in plain loops: what the real ones are checked against."""

import math
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def has(row: Row, *names: str) -> bool:
    return all(row.get(name) is not None and math.isfinite(row[name]) for name in names)


def first(rows: list[Row], zeta: str, key: Callable[[Row], float]) -> Row:
    """The lowest key; ties by lower ζ, earlier step, first run."""

    def order(row: Row) -> tuple[float, float, int, str]:
        return key(row), row[zeta] if has(row, zeta) else math.inf, row["step"], row["run"]

    return min(rows, key=order)


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    place = percent / 100 * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def region(row: Row, zeta: str, zeta_bar: float, train_bar: float) -> int | None:
    if not has(row, zeta, "train_accuracy"):
        return None
    if row["train_accuracy"] >= train_bar:
        return 1 if row[zeta] <= zeta_bar else 2
    return 3 if row[zeta] <= zeta_bar else 4


def rank(rows: list[Row], row: Row, name: str) -> float:
    lower = sum(other[name] < row[name] for other in rows)
    return lower + sum(other[name] == row[name] for other in rows) / 2


def region_one(
    rows: list[Row], zeta: str, zeta_bar: float, train_bar: float, prefer: str = "balance"
) -> Row:
    inside = [row for row in rows if region(row, zeta, zeta_bar, train_bar) == 1]
    resistant = [row for row in rows if row[zeta] <= zeta_bar]
    keys: dict[str, Callable[[Row], float]] = {
        "accuracy": lambda row: -row["train_accuracy"],
        "resistance": lambda row: row[zeta],
        "balance": lambda row: rank(inside, row, zeta) - rank(inside, row, "train_accuracy"),
    }
    return first(inside or resistant, zeta, keys[prefer if inside else "accuracy"])


def both(rows: list[Row], zeta: str) -> list[Row]:
    return [row for row in rows if has(row, zeta, "train_accuracy")]


def paper_bars(rows: list[Row], zeta: str) -> tuple[float, float]:
    known = both(rows, zeta)
    return mean([row[zeta] for row in known]), mean([row["train_accuracy"] for row in known])


def regions(rows: list[Row], zeta: str) -> Row:
    return region_one(both(rows, zeta), zeta, *paper_bars(rows, zeta))


def staged(rows: list[Row], zeta: str, prefer: str = "balance") -> Row:
    known = both(rows, zeta)
    bar = mean([row[zeta] for row in known])
    train_bar = mean([row["train_accuracy"] for row in known if row[zeta] <= bar])
    return region_one(known, zeta, bar, train_bar, prefer)


def by_percentile(rows: list[Row], zeta: str, t1: float = 50, t2: float = 50) -> Row:
    known = both(rows, zeta)
    return region_one(
        known,
        zeta,
        percentile([row[zeta] for row in known], t1),
        percentile([row["train_accuracy"] for row in known], t2),
    )


def filtered(rows: list[Row], zeta: str) -> Row:
    known = both(rows, zeta)
    bar = percentile([row[zeta] for row in known], 50)
    return first(
        [row for row in known if row[zeta] <= bar], zeta, lambda row: -row["train_accuracy"]
    )


def pareto_front(rows: list[Row], zeta: str) -> list[Row]:
    def beats(other: Row, row: Row) -> bool:
        as_good = other[zeta] <= row[zeta] and other["train_accuracy"] >= row["train_accuracy"]
        equal = other[zeta] == row[zeta] and other["train_accuracy"] == row["train_accuracy"]
        return as_good and not equal

    return [row for row in rows if not any(beats(other, row) for other in rows)]


def pareto(rows: list[Row], zeta: str) -> Row:
    front = pareto_front(both(rows, zeta), zeta)

    def scaled(row: Row, name: str) -> float:
        values = [other[name] for other in front]
        span = max(values) - min(values)
        return float((row[name] - min(values)) / span) if span else 0.0

    return first(
        front, zeta, lambda row: -((scaled(row, "train_accuracy") - scaled(row, zeta)) / 2**0.5)
    )


def noisy_validation(rows: list[Row], zeta: str) -> Row:
    known = [row for row in rows if has(row, "validation_accuracy")]
    return first(known, zeta, lambda row: -row["validation_accuracy"])


def noisy_validation_then_zeta(rows: list[Row], zeta: str, samples: int = 64) -> Row:
    known = [row for row in rows if has(row, "validation_accuracy", zeta)]
    best = max(row["validation_accuracy"] for row in known)
    bar = best - math.sqrt(best * (1 - best) / samples)
    near = [row for row in known if row["validation_accuracy"] >= bar]
    return first(near, zeta, lambda row: row[zeta])


def last(rows: list[Row], zeta: str) -> Row:
    ends = [
        max((row for row in rows if row["run"] == run), key=lambda row: row["step"])
        for run in {row["run"] for row in rows}
    ]
    return first(ends, zeta, minus_train)


def minus_train(row: Row) -> float:
    return -row["train_accuracy"] if has(row, "train_accuracy") else math.inf


def oracle(rows: list[Row], zeta: str) -> Row:
    known = [row for row in rows if has(row, "test_accuracy")]
    return first(known, zeta, lambda row: -row["test_accuracy"])


RULES: dict[str, Callable[[list[Row], str], Row]] = {
    "regions": regions,
    "staged": staged,
    "percentile": by_percentile,
    "filter": filtered,
    "pareto": pareto,
    "noisy-validation": noisy_validation,
    "noisy-validation+susceptibility": noisy_validation_then_zeta,
    "last": last,
    "oracle": oracle,
}

NEEDS = {
    "noisy-validation": ("validation_accuracy",),
    "noisy-validation+susceptibility": ("validation_accuracy", "ζ"),
    "last": (),
    "oracle": ("test_accuracy",),
}


def can_judge(rule: str, rows: list[Row], zeta: str) -> bool:
    """Whether any checkpoint has what a rule needs."""
    needs = NEEDS.get(rule, ("ζ", "train_accuracy"))
    names = [zeta if name == "ζ" else name for name in needs]
    return any(has(row, *names) for row in rows)
