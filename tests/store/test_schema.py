"""Which lines count, against the rule applied line by line."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rote.store import lines_that_count

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
    found = lines_that_count(lines, "here", is_retold=is_retold)
    assert found == naive(lines, is_retold=is_retold)
