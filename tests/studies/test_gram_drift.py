"""The study of how far training moves the Gram matrix, and its committed record."""

import json
from pathlib import Path

import pytest

from rote.studies import find_study
from rote.studies.figures.gram_drift import _fit_exponent, _measure_width

COMMITTED = json.loads(
    (Path(__file__).parents[2] / "docs" / "results" / "gram-drift.json").read_text()
)


def test_a_committed_row_is_reproduced() -> None:
    assert _measure_width(64) == pytest.approx(COMMITTED["widths"]["64"], rel=1e-3)


def test_the_exponent_of_a_power_is_found() -> None:
    record = {"widths": {str(m): {"drift": 3 * m**-0.5} for m in (16, 64, 256)}}
    assert _fit_exponent(record, "drift") == pytest.approx(-0.5)


def test_the_drift_falls_at_least_as_fast_as_the_lemma_says() -> None:
    brief = find_study("gram-drift").brief
    assert brief is not None
    assert brief(COMMITTED).verdict == "confirmed"
