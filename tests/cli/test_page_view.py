"""Pages of Markdown as text for a terminal."""

import pytest

from rote.cli.study import print_page

PAGE = """# Title

**Here.** Some `code` and a
[link](page.md).

![caption](picture.svg)

*caption.*

| pool | first | second |
|---|---|---|
| a | 1.0 | 22 % |
| bcd | – | 3 % |
"""


def test_tables_are_aligned_and_pictures_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_page(PAGE)
    assert capsys.readouterr().out == (
        "Title\n\nHere. Some code and a link.\n\n"
        "pool  first  second\n────  ─────  ──────\na       1.0    22 %\nbcd       –     3 %\n\n"
    )


def test_long_titles_stand_in_several_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_page("| pool | mean of all |\n|---|---|\n| a | 0.7 |")
    expected = "      mean\n        of\npool   all\n────  ────\na      0.7\n\n"
    assert capsys.readouterr().out == expected


def test_a_table_that_is_too_wide_is_a_block_for_each_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "16")
    print_page(PAGE[PAGE.index("| pool") :])
    assert capsys.readouterr().out == (
        "a\n  first   1.0\n  second  22 %\nbcd\n  first   –\n  second  3 %\n\n"
    )
