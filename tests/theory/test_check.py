from dataclasses import replace

import numpy as np
import pytest

from rote.errors import InputError
from rote.theory import check, distance, relu_gram, spectrum
from rote.theory.check import WIDTHS


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


def test_records_say_what_was_computed() -> None:
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
