import re
from collections.abc import Callable

import pytest

from tests.examples.conftest import EXAMPLES

pytestmark = pytest.mark.slow

pytest.importorskip("lightning", reason="needs the extra `lightning`")


def test_the_lightning_example_stops_and_says_which_epoch_to_keep(
    script: Callable[..., str],
) -> None:
    assert len((EXAMPLES / "lightning_digits.py").read_text().splitlines()) <= 60
    *rows, verdict = script("lightning_digits.py").splitlines()
    found = [re.fullmatch(r" *(\d+)  ζ = (\S+)  (\S+)%", row) for row in rows]
    assert [int(row[1]) for row in found if row] == list(range(1, len(rows) + 1))
    # The rule in plain words: of the epochs from 5 on with half of the labels right, the lowest ζ.
    counted = [(float(row[2]), int(row[1])) for row in found if row and float(row[3]) >= 50]
    lowest = min(zeta for zeta, epoch in counted if epoch >= 5)
    keep = re.search(r"keep (?:step|epoch) (\d+)", verdict)
    assert keep is not None
    assert {epoch: zeta for zeta, epoch in counted}[int(keep[1])] == lowest
