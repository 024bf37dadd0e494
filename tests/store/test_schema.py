"""Which lines count, against the rule applied line by line."""

import warnings
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rote.errors import OddJournalWarning
from rote.store import drop_void_lines

kinds = st.sampled_from(["reading", "reading", "resume", "note"])
journals = st.lists(st.tuples(kinds, st.integers(0, 6)))


def naive(lines: list[dict[str, Any]], *, is_retold: bool) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for line in lines:
        if line["kind"] == "resume":
            kept = [earlier for earlier in kept if earlier["step"] <= line["step"]]
        elif line["kind"] == "reading":
            if is_retold:
                kept = [earlier for earlier in kept if earlier["step"] < line["step"]]
            kept.append(line)
    return kept


@given(journals, st.booleans())
def test_a_resume_line_voids_what_came_after_its_step(
    journal: list[tuple[str, int]], is_retold: bool
) -> None:
    lines = [
        {"schema": 1, "kind": kind, "step": step, "number": number}
        for number, (kind, step) in enumerate(journal)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddJournalWarning)
        found = drop_void_lines(lines, "here", is_retold=is_retold)
    expected = naive(lines, is_retold=is_retold)
    assert [line["number"] for line in found] == [line["number"] for line in expected]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([1, 2, 2], "steps that are doubled, the first at reading 3"),
        ([1, 3, 2], "steps that are out of order, the first at reading 3"),
        ([-1, 2, 3], "steps that are negative, the first at reading 1"),
    ],
)
def test_unusual_steps_give_a_warning(steps: list[int], message: str) -> None:
    lines = [{"schema": 1, "kind": "reading", "step": step} for step in steps]
    with pytest.warns(OddJournalWarning, match=message):
        assert len(drop_void_lines(lines, "here")) == 3
