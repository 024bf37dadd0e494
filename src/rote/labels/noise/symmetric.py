"""Symmetric noise: a label is replaced without regard to its class."""

import numpy as np

from rote.labels.noise.record import Draw, Labels


def symmetric_inclusive(
    labels: Labels, *, rate: float, num_classes: int, generator: np.random.Generator
) -> Draw:
    """Redraw exactly round(r·n) labels uniformly over all c classes, the paper's noise.

    A redrawn label is right by chance with probability 1/c, so the expected share of wrong labels
    is r·(1 − 1/c): 45 % at "50 %" with 10 classes.

    Args:
        labels: clean labels.
        rate: r, share of labels redrawn.
        num_classes: c.
        generator: source of the draws.

    Returns:
        The noisy labels.
    """
    chosen = _choose(len(labels), rate, generator)
    noisy = labels.copy()
    noisy[chosen] = generator.integers(num_classes, size=len(chosen))
    return Draw(noisy)


def symmetric_exclusive(
    labels: Labels, *, rate: float, num_classes: int, generator: np.random.Generator
) -> Draw:
    """Move exactly round(r·n) labels to one of the c − 1 other classes, uniformly.

    The transition matrix has 1 − r on its diagonal and r/(c − 1) elsewhere; the share of wrong
    labels is round(r·n)/n.

    Args:
        labels: clean labels.
        rate: r, share of wrong labels.
        num_classes: c.
        generator: source of the draws.

    Returns:
        The noisy labels.
    """
    chosen = _choose(len(labels), rate, generator)
    noisy = labels.copy()
    steps = generator.integers(1, num_classes, size=len(chosen))
    noisy[chosen] = (noisy[chosen] + steps) % num_classes
    return Draw(noisy)


def _choose(size: int, rate: float, generator: np.random.Generator) -> Labels:
    return generator.choice(size, size=round(rate * size), replace=False)
