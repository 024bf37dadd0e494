"""docs/performance.md is what the committed figures say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_made_of_the_committed_figures() -> None:
    path = ROOT / "benchmarks" / "performance.py"
    spec = importlib.util.spec_from_file_location("performance", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "performance.md").read_text() == module.page()
