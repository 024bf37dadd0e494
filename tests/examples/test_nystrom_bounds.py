"""The example says what docs/theory.md shows, on fewer samples."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_more_landmarks_and_a_pass_come_closer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "few.npz", x_train=x[:300], y_train=y[:300])
    monkeypatch.setattr("sys.argv", ["example", str(tmp_path / "few.npz")])
    runpy.run_path(str(ROOT / "examples" / "nystrom_bounds.py"), run_name="__main__")
    head, *rows = capsys.readouterr().out.splitlines()
    cells = [[float(cell.strip(" %")) for cell in row.strip("| ").split("|")] for row in rows]
    assert [row[0] for row in cells] == [100, 200]
    assert len(head.strip("| ").split("|")) == len(cells[0]) == 9
    few, many = (np.array(row[1:]) for row in cells)
    assert (many <= few).all()
    assert (few[:4] <= few[4:]).all()
    assert "`python examples/nystrom_bounds.py mnist.npz`" in (ROOT / "docs/theory.md").read_text()
