"""What is said while a run trains, against a twin that looks at all the past at every reading."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rote.records import Reading
from rote.store import notes_of

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


@given(RUN, st.sampled_from([None, 0.0, 0.25]))
def test_each_kind_is_said_at_the_first_reading_that_shows_it(
    rows: list[tuple[float | None, float, float | None]], noise_rate: float | None
) -> None:
    kinds = {
        "ζ has doubled": zeta_doubles,
        "Noisy validation accuracy has not improved": validation_stands,
        "the share of right labels": lambda past: bool(
            noise_rate and past[-1][0] is not None and past[-1][0] >= 1 - noise_rate
        ),
        "whichever labels are wrong": lambda past: past[-1][0] is not None and past[-1][0] >= 0.99,
    }
    found = notes_of(run(rows), noise_rate)
    for words, happens in kinds.items():
        at = [step for step in range(1, len(rows) + 1) if happens(rows[:step])]
        assert [step for step, note in found.items() if words in note] == at[:1]
    assert sum(note.count(": ") + note.count("; ") for note in found.values()) <= 4


@given(RUN, st.integers(0, 25))
def test_the_past_alone_decides(
    rows: list[tuple[float | None, float, float | None]], cut: int
) -> None:
    whole, part = notes_of(run(rows), 0.25), notes_of(run(rows[:cut]), 0.25)
    assert part == {step: note for step, note in whole.items() if step <= cut}


def test_the_sentences() -> None:
    rows = [(0.4, 0.001, 0.5), (0.6, 0.01, 0.61)] + [(0.7 + at / 100, 0.02, 0.6) for at in range(5)]
    assert notes_of(run([*rows, (1.0, 0.02, 0.6)]), 0.25) == {
        4: "ζ has doubled since step 2: memorization has probably begun.",
        7: "Noisy validation accuracy has not improved for 5 readings (61.0% at step 2) while "
        "training accuracy rose from 60.0% to 74.0%.",
        8: "Training accuracy (100.0%) has passed the share of right labels (75.0%): from here on "
        "wrong labels are learned. Training accuracy is 100.0%: whichever labels are wrong, they "
        "are learned now.",
    }
    unknown = [reading(at, None, zeta, plain=False) for at, zeta in enumerate([0.1, 0.2, 0.3], 1)]
    assert notes_of(unknown) == {
        3: "ζ has doubled since step 1; if training accuracy is high by now, memorization has "
        "begun."
    }
