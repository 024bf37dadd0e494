"""The examples of docs/selection.md say what they print."""

import doctest
from pathlib import Path


def test_examples_run() -> None:
    page = Path(__file__).parents[2] / "docs" / "selection.md"
    failures, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 5
    assert failures == 0
