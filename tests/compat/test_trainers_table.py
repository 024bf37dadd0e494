"""Every row of the part about trainers and quantization names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PART = (ROOT / "compat" / "trainers.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[^`]+)`", PART)))


@pytest.mark.parametrize("named", NAMED)
def test_a_named_test_exists(named: str) -> None:
    path, _, function = named.partition("::")
    assert (ROOT / path).exists()
    if function:
        assert f"def {function}(" in (ROOT / path).read_text()


def test_the_page_contains_the_generated_part_and_begins_with_the_devices() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    assert PART.strip() in page
    assert "No CUDA device was available" in PART[:120]
