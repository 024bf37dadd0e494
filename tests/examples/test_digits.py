from collections.abc import Callable

import pytest

pytestmark = pytest.mark.slow


def test_the_demo_prints_the_figures_of_the_readme(script: Callable[..., str]) -> None:
    printed = script("digits.py")
    rows = [line for line in printed.splitlines() if line.strip()[:1].isdigit()]
    assert len(rows) == 1 + 5 + 11
    epochs = {row.split()[0]: row for row in rows[1:]}
    memorized = [float(epochs[epoch].split()[-1].rstrip("%")) for epoch in ("5", "20", "60")]
    zeta = [float(epochs[epoch].split()[1]) for epoch in ("5", "20", "60")]
    assert memorized == sorted(memorized)
    assert zeta == sorted(zeta)
    assert "45.2% of the labels are wrong" in printed
