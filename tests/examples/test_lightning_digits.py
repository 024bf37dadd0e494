import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lightning", reason="needs the extra `lightning`")

ROOT = Path(__file__).parents[2]


def test_the_lightning_example_stops_and_says_which_epoch_to_keep() -> None:
    script = ROOT / "examples" / "lightning_digits.py"
    assert len(script.read_text().splitlines()) <= 60
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    *rows, verdict = done.stdout.splitlines()
    found = [re.fullmatch(r" *(\d+)  ζ = (\S+)  (\S+)%", row) for row in rows]
    assert [int(row[1]) for row in found if row] == list(range(1, len(rows) + 1))
    # The rule in plain words: of the epochs from 5 on with half of the labels right, the lowest ζ.
    counted = [(float(row[2]), int(row[1])) for row in found if row and float(row[3]) >= 50]
    lowest = min(zeta for zeta, epoch in counted if epoch >= 5)
    keep = re.search(r"keep (?:step|epoch) (\d+)", verdict)
    assert keep is not None
    assert {epoch: zeta for zeta, epoch in counted}[int(keep[1])] == lowest
