"""Which class is mistaken for which: the published maps of asymmetric noise."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Sampling: TypeAlias = Literal["independent", "per-class", "overall"]
Blocks: TypeAlias = Literal["consecutive", "superclass"]


@dataclass(frozen=True)
class ClassMap:
    """A published map.

    Args:
        targets: class → the class it is mistaken for; classes left out keep their labels.
        num_classes: how many classes the data set has.
        sampling: how the published code chooses the labels to change.
    """

    targets: Mapping[int, int]
    num_classes: int
    sampling: Sampling


def cycles(blocks: Iterable[tuple[int, ...]]) -> dict[int, int]:
    """Map each class to the next of its block, and the last to the first.

    Example:
        >>> cycles([(0, 1, 2), (3, 4)])
        {0: 1, 1: 2, 2: 0, 3: 4, 4: 3}
    """
    return {
        source: block[(position + 1) % len(block)]
        for block in blocks
        for position, source in enumerate(block)
    }


CIFAR100_SUPERCLASSES = (
    (4, 30, 55, 72, 95),  # aquatic mammals
    (1, 32, 67, 73, 91),  # fish
    (54, 62, 70, 82, 92),  # flowers
    (9, 10, 16, 28, 61),  # food containers
    (0, 51, 53, 57, 83),  # fruit and vegetables
    (22, 39, 40, 86, 87),  # household electrical devices
    (5, 20, 25, 84, 94),  # household furniture
    (6, 7, 14, 18, 24),  # insects
    (3, 42, 43, 88, 97),  # large carnivores
    (12, 17, 37, 68, 76),  # large man-made outdoor things
    (23, 33, 49, 60, 71),  # large natural outdoor scenes
    (15, 19, 21, 31, 38),  # large omnivores and herbivores
    (34, 63, 64, 66, 75),  # medium-sized mammals
    (26, 45, 77, 79, 99),  # non-insect invertebrates
    (2, 11, 35, 46, 98),  # people
    (27, 29, 44, 78, 93),  # reptiles
    (36, 50, 65, 74, 80),  # small mammals
    (47, 52, 56, 59, 96),  # trees
    (8, 13, 48, 58, 90),  # vehicles 1
    (41, 69, 81, 85, 89),  # vehicles 2
)
"""Fine labels (alphabetical) of the 20 superclasses (alphabetical) of CIFAR-100."""

CIFAR100_BLOCKS: dict[str, tuple[tuple[int, ...], ...]] = {
    # What published code uses: since fine labels are alphabetical, these are no superclasses.
    "consecutive": tuple(tuple(range(first, first + 5)) for first in range(0, 100, 5)),
    "superclass": CIFAR100_SUPERCLASSES,
}

CLASS_MAPS: dict[str, ClassMap] = {
    # Xia et al. 2021 (CDR): 2 → 7, 3 → 8, 5 ↔ 6.
    "mnist": ClassMap({2: 7, 3: 8, 5: 6, 6: 5}, 10, "independent"),
    # Ma et al. 2020 (active-passive losses): the same and 7 → 1.
    "mnist_apl": ClassMap({2: 7, 3: 8, 5: 6, 6: 5, 7: 1}, 10, "independent"),
    # CDR: T-shirt → shirt, pullover → coat, sandal ↔ sneaker.
    "fashion_mnist": ClassMap({0: 6, 2: 4, 5: 7, 7: 5}, 10, "independent"),
    # CDR: truck → automobile, bird → airplane, deer → horse, cat ↔ dog.
    "cifar10": ClassMap({9: 1, 2: 0, 4: 7, 3: 5, 5: 3}, 10, "per-class"),
    "cifar100": ClassMap(cycles(CIFAR100_BLOCKS["consecutive"]), 100, "independent"),
}
"""Published maps by name of the data set."""
