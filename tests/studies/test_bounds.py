"""The study of the bounds, its committed record, and the page that quotes it."""

import json
from pathlib import Path

import numpy as np
import pytest

from rote.studies import Records, find_study
from rote.studies.figures.bounds import _compute_falling_share
from rote.theory import alignment, binary_labels, relu_gram, spectrum
from rote.workloads import load_arrays
from rote.workloads.data.listing import ListedSet

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
COMMITTED = json.loads((DOCS / "results" / "bounds.json").read_text())


def test_decreases_are_counted_between_adjacent_rows() -> None:
    grid = np.array([[3.0, 1.0], [2.0, 1.0], [1.0, 2.0]])
    assert _compute_falling_share(grid) == 2 / 4
    assert _compute_falling_share(grid.T) == 2 / 3


def test_the_committed_rows_of_digits_are_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTE_DATA", raising=False)
    found = find_study("bounds").measure([])["settings"]
    assert len(found) == 10
    for name, numbers in found.items():
        committed = COMMITTED["settings"][name]
        assert numbers["reversed_from"] == committed["reversed_from"]
        for key in ("in_noise", "in_steps"):
            assert numbers[key] == pytest.approx(committed[key], abs=0.01)


def test_committed_results_are_shown_without_data(tmp_path: Path) -> None:
    ((_, recorded),) = Records(tmp_path).read(find_study("bounds"))
    assert find_study("bounds").measure(recorded) == COMMITTED
    assert {name.split(",")[0] for name in COMMITTED["settings"]} == {
        *("digits", "mnist", "fashion_mnist", "cifar10", "svhn"),
    }


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed() -> list[ListedSet]:
        return [ListedSet("mnist", 10, (28, 28, 1), None, None, "download it", on_hub=True)]

    monkeypatch.setattr("rote.workloads.data.list_datasets", listed)
    assert find_study("bounds").measure([]) == {"settings": {}}


def test_the_order_reverses_where_the_alignment_changes_sign() -> None:
    _, x, classes = load_arrays("digits", None)
    labels = binary_labels(classes, pair=(0, 1))
    order = np.sort(np.random.default_rng(0).choice(len(labels.kept), len(labels.kept), False))
    eigenpairs = spectrum(relu_gram(x[labels.kept[order]], normalize=True))
    steps = np.arange(0, 1001, 5)
    sums = alignment(eigenpairs, labels.y[order], eta=1e-3, k=1000, k_tilde=steps)
    found = COMMITTED["settings"]["digits, 0 against 1, η = 0.001, k = 1000"]["reversed_from"]
    assert found[0] == next(k for k, total in zip(steps, sums, strict=True) if total <= 0)


def test_the_page_about_the_theory_has_the_committed_numbers() -> None:
    page = (DOCS / "theory.md").read_text()
    rows = [line for line in find_study("bounds").text(COMMITTED).splitlines() if "mnist, " in line]
    rows = [row for row in rows if row.startswith("| mnist")]
    assert len(rows) == 10
    assert all(row in page for row in rows)
