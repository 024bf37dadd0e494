"""Notes on a run, against a twin that looks at all earlier readings every time."""

import math

from hypothesis import given, strategies as st

from rote.interpretation import find_notes
from rote.records import Reading

ACCURACY = st.sampled_from([None, 0.3, 0.5, 0.6, 0.7, 0.8, 0.985, 0.99, 1.0, math.nan])
ZETA = st.sampled_from([-0.1, 0.0, 0.01, 0.015, 0.02, 0.03, 0.04, math.nan])
VALID = st.sampled_from([None, 0.5, 0.55, 0.6, math.nan])
RUN = st.lists(st.tuples(ACCURACY, ZETA, VALID), max_size=25)


def reading(
    step: int, accuracy: float | None, zeta: float, valid: float | None = None, plain: bool = True
) -> Reading:
    metrics = {} if accuracy is None else {"train_accuracy": accuracy}
    live, other = (9.0, zeta) if plain else (zeta, None)
    return Reading(
        step, 2.0, 2.0, 0.0, live, 0.0, susceptibility_plain=other, validation_accuracy=valid,
        metrics=metrics,
    )  # fmt: skip


def run(rows: list[tuple[float | None, float, float | None]]) -> list[Reading]:
    return [reading(step, *row) for step, row in enumerate(rows, start=1)]


def zeta_doubles(rows: list[tuple[float | None, float, float | None]]) -> bool:
    """At the last row and the one before it: counted, and twice the lowest counted so far."""

    def counts(row: tuple[float | None, float, float | None]) -> bool:
        return row[1] > 0 and (row[0] is None or not row[0] < 0.5)

    def doubles(past: list[tuple[float | None, float, float | None]]) -> bool:
        counted = [row[1] for row in past if counts(row)]
        return counts(past[-1]) and past[-1][1] >= 2 * min(counted)

    return len(rows) > 1 and doubles(rows) and doubles(rows[:-1])


def validation_stands(rows: list[tuple[float | None, float, float | None]]) -> bool:
    known = [(at, row[2]) for at, row in enumerate(rows) if row[2] is not None]
    whole = [(at, value) for at, value in known if not math.isnan(value)]
    if not whole:
        return False
    best = max(value for _, value in whole)
    first = min(at for at, value in whole if value == best)
    before, now = rows[first][0], rows[-1][0]
    rose = before is not None and now is not None and now > before
    return rose and sum(at > first for at, _ in known) >= 5


def passes_noise_rate(
    rows: list[tuple[float | None, float, float | None]], noise_rate: float
) -> bool:
    return rows[-1][0] is not None and rows[-1][0] >= 1 - noise_rate


@given(RUN, st.sampled_from([None, 0.0, 0.25]))
def test_each_kind_is_noted_at_the_first_reading_that_shows_it(
    rows: list[tuple[float | None, float, float | None]], noise_rate: float | None
) -> None:
    def memorization(past: list[tuple[float | None, float, float | None]]) -> bool:
        if noise_rate and past[-1][0] is not None:
            return passes_noise_rate(past, noise_rate)
        return zeta_doubles(past)

    kinds = {
        "memorization": memorization,
        "Noisy validation accuracy has not improved": validation_stands,
        "label errors are memorized": lambda past: past[-1][0] is not None and past[-1][0] >= 0.99,
    }
    found = find_notes(run(rows), noise_rate)
    for words, happens in kinds.items():
        at = [step for step in range(1, len(rows) + 1) if happens(rows[:step])]
        assert [step for step, note in found.items() if words in note] == at[:1]


@given(RUN, st.integers(0, 25))
def test_notes_depend_on_earlier_readings_only(
    rows: list[tuple[float | None, float, float | None]], cut: int
) -> None:
    whole, part = find_notes(run(rows), 0.25), find_notes(run(rows[:cut]), 0.25)
    assert part == {step: note for step, note in whole.items() if step <= cut}


def test_notes_have_the_expected_text() -> None:
    rows = [(0.4, 0.001, 0.5), (0.6, 0.01, 0.61)] + [(0.7 + at / 100, 0.02, 0.6) for at in range(5)]
    stalled = (
        "Noisy validation accuracy has not improved for 5 readings (61.0% at step 2), while "
        "training accuracy rose from 60.0% to 74.0%."
    )
    memorized = "Training accuracy is 100.0%: any label errors are memorized by now."
    assert find_notes(run([*rows, (1.0, 0.02, 0.6)])) == {
        4: "ζ has doubled since step 2: memorization has probably begun.",
        7: stalled,
        8: memorized,
    }
    # Where the noise rate is known, it alone says where memorization begins.
    assert find_notes(run([*rows, (1.0, 0.02, 0.6)]), 0.25) == {
        7: stalled,
        8: "Training accuracy (100.0%) has passed the share of correct labels (75.0%): "
        f"memorization begins here. {memorized}",
    }
    unknown = [reading(at, None, zeta, plain=False) for at, zeta in enumerate([0.1, 0.2, 0.3], 1)]
    assert find_notes(unknown) == {
        3: "ζ has doubled since step 1. If training accuracy is high by now, memorization has "
        "begun."
    }
