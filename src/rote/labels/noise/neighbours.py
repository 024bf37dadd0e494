"""Noise that moves a label to a neighbouring class: pair and tridiagonal."""

import numpy as np

from rote.labels.noise.record import Draw, Labels


def pair(labels: Labels, *, rate: float, num_classes: int, generator: np.random.Generator) -> Draw:
    """Move each label i to i + 1 mod c with probability r.

    Args:
        labels: clean labels.
        rate: r, probability that a label moves.
        num_classes: c.
        generator: source of the draws.

    Returns:
        The noisy labels.
    """
    moved = generator.random(len(labels)) < rate
    return Draw((labels + moved) % num_classes)


def trid(labels: Labels, *, rate: float, num_classes: int, generator: np.random.Generator) -> Draw:
    """Move each label i to i − 1 or i + 1 mod c with probability r/2 each.

    Args:
        labels: clean labels.
        rate: r, probability that a label moves.
        num_classes: c.
        generator: source of the draws.

    Returns:
        The noisy labels.
    """
    moved = generator.random(len(labels)) < rate
    steps = 2 * generator.integers(2, size=len(labels)) - 1
    return Draw((labels + moved * steps) % num_classes)
