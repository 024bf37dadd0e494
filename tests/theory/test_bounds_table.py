from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from rote.errors import InputError
from rote.theory import BoundsTable, alignment, bounds, bounds_table, relu_gram, spectrum

FloatArray = npt.NDArray[np.float64]


def digits(n: int = 30) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (n, 4, 4), dtype=np.uint8), np.arange(n) % 3


def table_of(x: Any, classes: Any, seed: int = 0, **options: Any) -> BoundsTable:
    settings: dict[str, Any] = {"samples": 30, "eta": 1e-3, "k": 50, "k_tilde": 10} | options
    return bounds_table(x, classes, rng=np.random.default_rng(seed), **settings)


def test_rows_are_the_bounds_of_all_samples() -> None:
    images, classes = digits()
    table = table_of(images, classes, k_tilde=[0, 10], noise=[0, 0.5])
    pairs, y = spectrum(relu_gram(images, normalize=True)), np.where(classes == 1, -1.0, 1.0)
    expected = bounds(pairs, y, eta=1e-3, k=50, k_tilde=[0, 10], noise=[0, 0.5], delta=0.05)
    assert [(row.noise, row.k_tilde) for row in table.rows] == [
        (0.0, 0),
        (0.0, 10),
        (0.5, 0),
        (0.5, 10),
    ]
    for name in ("lower", "upper", "mu", "variance"):
        values = [getattr(row, name) for row in table.rows]
        np.testing.assert_allclose(values, getattr(expected, name).flatten(), rtol=1e-12)
    assert [row.floor for row in table.rows] == pytest.approx([*expected.floor] * 2)
    assert table.labels == "even classes are 1, odd classes are -1"
    assert (table.samples, table.eta, table.k, table.delta) == (30, 1e-3, 50, 0.05)
    assert table.trace_error == 0.0


def test_pairs_and_samples_are_chosen_by_the_generator() -> None:
    images, classes = digits()
    x, y = torch.as_tensor(images), torch.as_tensor(classes)
    tables = [table_of(x, y, seed, samples=10, pair=(0, 2)) for seed in (0, 0, 1)]
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]
    assert tables[0].labels == "class 0 is 1, class 2 is -1"
    assert [row.noise for row in tables[0].rows] == [0, 0.25, 0.5, 0.75, 1]


def test_landmarks_show_their_error() -> None:
    assert 0 < table_of(*digits(), landmarks=10).trace_error < 1


def test_the_step_from_which_proposition_1_is_reversed_is_named() -> None:
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], 10)
    x = np.where(classes == 0, 3.0, -3.0)[:, None] * [1, 0, 0, 0] + rng.standard_normal((20, 4))
    steps = np.array([0, 1, 2, 5, 20])
    tables = [
        bounds_table(
            x, classes, samples=20, eta=0.1, k=100, k_tilde=part, rng=np.random.default_rng(0)
        )
        for part in (steps, steps[:1])
    ]
    sign = alignment(
        spectrum(relu_gram(x, normalize=True)),
        np.where(classes == 0, 1.0, -1.0),
        eta=0.1,
        k=100,
        k_tilde=steps,
    )
    assert tables[0].reversed_from == steps[np.flatnonzero(sign <= 0)[0]]
    assert tables[1].reversed_from is None


def test_more_samples_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match=r"between 1 and 20 \(class 0 is 1, class 1 is -1\)"):
        table_of(*digits(), samples=25, pair=(0, 1))


def test_paper_settings_on_mnist(
    mnist: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]],
) -> None:
    table = bounds_table(
        *mnist,
        samples=1000,
        eta=1e-6,
        k=10_000,
        k_tilde=[0, 5000, 10_000],
        rng=np.random.default_rng(0),
    )
    assert len(table.rows) == 15
    assert table.reversed_from is None
    # Pinned when the closed form agreed with the enumeration of every label vector.
    assert table.rows[0].mu / 2 == pytest.approx(5.61554, abs=1e-5)
    assert table.rows[12].variance == pytest.approx(0.93273**2, rel=1e-4)
