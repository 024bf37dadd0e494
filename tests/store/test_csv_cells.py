"""Cells of CSV files that people open in a spreadsheet: no formulas, and exact values."""

import csv
import io
import re

from hypothesis import given, strategies as st

from rote.store import make_csv, unescape_cell


def test_cells_that_a_spreadsheet_would_run_are_escaped() -> None:
    texts = ["=1+1", "+a", "-a", "@a", "\ta", "\ra"]
    escaped = "'=1+1,'+a,'-a,'@a,'\ta,\"'\ra\"\n"
    assert make_csv([texts, ["a=b", "", -1.5, 3, None]]) == f"{escaped}a=b,,-1.5,3,\n"
    assert make_csv([["-1", "+1.5e-3", "-1+1", "-e5"]]) == "-1,+1.5e-3,'-1+1,'-e5\n"


TEXTS = st.text(st.sampled_from("=+-@\t\r'\"a1,\n "))


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1))
def test_escaped_cells_start_no_formula_and_come_back(rows: list[list[str]]) -> None:
    found = list(csv.reader(io.StringIO(make_csv(rows), newline="")))
    cells = [cell for row in found for cell in row if not re.fullmatch("[+-]?1+", cell)]
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == []
    assert [[unescape_cell(cell) for cell in row] for row in found] == rows
