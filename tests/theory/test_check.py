from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rote.errors import InputError
from rote.theory import (
    CheckRecord,
    WidthSummary,
    check,
    distance,
    gap_exponent,
    relu_gram,
    spectrum,
    summarize,
)
from rote.theory.check import WIDTHS

pytestmark = pytest.mark.slow


def test_gap_to_theorem_1_shrinks_with_the_width() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 8))
    records = check(
        x, np.sign(x[:, 0]), eta=0.5, k=20, k_tilde=20, rng=np.random.default_rng(1), draws=20
    )
    assert WIDTHS == (2**8, 2**9, 2**10, 2**11, 2**12, 2**13, 2**14)
    gaps = [
        np.sqrt(np.mean([record.gap**2 for record in records if record.width == width]))
        for width in WIDTHS
    ]
    slope = np.polyfit(np.log(WIDTHS), np.log(gaps), 1)[0]
    assert slope < -0.35  # Theorem 1: m^(-1/2) at a fixed size of the initial weights
    assert all(wider < narrower for narrower, wider in zip(gaps, gaps[2:], strict=False))
    assert gaps[-1] < 0.06
    wide = [record for record in records if record.width >= 2**12]
    assert all(record.is_inside for record in wide)
    assert all(record.worst_contraction <= record.contraction_limit for record in wide)


def test_records_contain_the_computed_numbers() -> None:
    x = np.random.default_rng(0).standard_normal((5, 3))
    y = [1, -1, 1, 1, -1]
    rng = np.random.default_rng(0)
    first, *others = check(
        x, y, eta=0.4, k=6, k_tilde=3, noise=0.0, widths=[8, 16], draws=2, rng=rng
    )
    assert [(record.draw, record.width) for record in (first, *others)] == [
        (0, 8),
        (0, 16),
        (1, 8),
        (1, 16),
    ]
    assert others[0].predicted == first.predicted  # one draw, two widths
    assert first.gap == abs(first.simulated - first.predicted)
    pairs = spectrum(relu_gram(x, normalize=True))
    assert first.contraction_limit == pytest.approx(1 - 0.4 * pairs.smallest / 2)
    every = np.array(np.meshgrid(*[[-1.0, 1.0]] * 5)).reshape(5, -1).T
    possible = distance(pairs, y, every, eta=0.4, k=6, k_tilde=3)
    assert np.abs(possible - first.predicted).min() < 1e-12
    assert replace(first, simulated=first.predicted).gap == 0


def test_no_training_at_all_is_refused() -> None:
    x = np.eye(3)
    for draws, widths in ((0, [8]), (1, [])):
        with pytest.raises(InputError, match="Expected `draws` and `widths` to hold at least one"):
            check(
                x,
                [1, 1, -1],
                eta=0.4,
                k=6,
                k_tilde=3,
                draws=draws,
                widths=widths,
                rng=np.random.default_rng(0),
            )


def test_draws_with_separate_generators_are_independent() -> None:
    x = np.random.default_rng(0).standard_normal((5, 3))
    settings: Any = {"eta": 0.4, "k": 6, "k_tilde": 3, "widths": [8, 16]}
    y = [1, -1, 1, 1, -1]
    done: list[int] = []
    together = check(
        *(x, y),
        rng=[np.random.default_rng(seed) for seed in range(3)],
        draws=3,
        progress=done.append,
        **settings,
    )
    alone = [
        replace(record, draw=seed)
        for seed in range(3)
        for record in check(x, y, rng=np.random.default_rng(seed), draws=1, **settings)
    ]
    assert list(together) == alone
    assert done == [0, 1, 2]
    with pytest.raises(InputError, match="or one for each of 2 draws, got 1"):
        check(x, y, rng=[np.random.default_rng(0)], draws=2, **settings)


def record(width: int, simulated: float, contraction: float, is_inside: bool) -> CheckRecord:
    return CheckRecord(width, 0, simulated, 1.0, contraction, 0.5, is_inside)


def test_summaries_take_the_draws_of_a_width_together() -> None:
    records = [
        record(64, 1.5, 0.5, True),
        record(16, 4.0, 0.4, False),
        record(16, -3.0, 0.6, False),
        record(64, 1.5, 0.5, False),
    ]
    narrow, wide = summarize(iter(records))
    assert narrow == WidthSummary(16, 0.5, 1.0, pytest.approx(12.5**0.5), 0.5, 0.0)
    assert wide == WidthSummary(64, 1.5, 1.0, 0.5, 1.0, 0.5)
    assert summarize([]) == []


def test_the_exponent_is_that_of_a_power_law() -> None:
    narrow, wide = (
        WidthSummary(m, 0.0, 0.0, gap=3 * m**-0.38, contracting=1.0, inside=1.0)
        for m in (256, 8192)
    )
    assert gap_exponent(narrow, wide) == pytest.approx(-0.38)
    assert gap_exponent(narrow, replace(wide, gap=0.0)) < -100
