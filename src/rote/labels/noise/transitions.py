"""Noise that goes by the class alone: symmetric, to the next class, or to either neighbor.

Each model takes clean labels, a rate r, the number of classes c and the source of its draws.
"""

import numpy as np

from rote.labels.noise.noisy_labels import Draw, Labels


def symmetric_inclusive(
    labels: Labels, *, rate: float, num_classes: int, generator: np.random.Generator
) -> Draw:
    """Resample exactly round(r·n) labels uniformly over all c classes, the paper's noise.

    A resampled label is right by chance with probability 1/c, so the expected share of wrong labels
    is r·(1 − 1/c): 45 % at "50 %" with 10 classes.
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
    """
    chosen = _choose(len(labels), rate, generator)
    noisy = labels.copy()
    steps = generator.integers(1, num_classes, size=len(chosen))
    noisy[chosen] = (noisy[chosen] + steps) % num_classes
    return Draw(noisy)


def pair(labels: Labels, *, rate: float, num_classes: int, generator: np.random.Generator) -> Draw:
    """Move each label i to i + 1 mod c with probability r."""
    moved = generator.random(len(labels)) < rate
    return Draw((labels + moved) % num_classes)


def trid(labels: Labels, *, rate: float, num_classes: int, generator: np.random.Generator) -> Draw:
    """Move each label i to i − 1 or i + 1 mod c with probability r/2 each."""
    moved = generator.random(len(labels)) < rate
    steps = 2 * generator.integers(2, size=len(labels)) - 1
    return Draw((labels + moved * steps) % num_classes)


def _choose(size: int, rate: float, generator: np.random.Generator) -> Labels:
    return generator.choice(size, size=round(rate * size), replace=False)
