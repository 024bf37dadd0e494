import doctest
from pathlib import Path


def test_the_page_about_the_theory_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "theory.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
