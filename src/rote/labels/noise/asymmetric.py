"""Asymmetric noise: some classes are mistaken for one other class each, by published maps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from rote.arguments import check_choice
from rote.errors import InputError
from rote.labels.noise.noisy_labels import Draw, Labels

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


def make_cycles(blocks: Iterable[tuple[int, ...]]) -> dict[int, int]:
    """Map each class to the next of its block, and the last to the first.

    Example:
        >>> make_cycles([(0, 1, 2), (3, 4)])
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
    "cifar100": ClassMap(make_cycles(CIFAR100_BLOCKS["consecutive"]), 100, "independent"),
}
"""Published maps by name of the data set."""


def asymmetric(
    labels: Labels,
    *,
    rate: float,
    num_classes: int,
    generator: np.random.Generator,
    class_map: str | Mapping[int, int] | Mapping[str, int],
    sampling: Sampling | None = None,
    blocks: Blocks | None = None,
) -> Draw:
    """Replace labels of some classes by the class that they are mistaken for.

    On CIFAR-10 half of the classes are mistaken, so the share of wrong labels is about r/2:
    25 % at "50 %", where cat and dog are a coin flip.

    Args:
        labels: clean labels.
        rate: r.
        num_classes: how many classes.
        generator: source of the draws.
        class_map: a key of ``CLASS_MAPS``, or class → class; classes left out keep their labels.
        sampling: ``"independent"`` replaces each label of a mistaken class with probability r,
            ``"per-class"`` exactly int(r·n_class) labels of each mistaken class (CDR),
            ``"overall"`` draws int(r·n) samples of all classes and replaces those of mistaken
            classes (DivideMix, SELC). By default as published with the map; ``"per-class"`` for a
            map of your own.
        blocks: for ``"cifar100"``: ``"consecutive"`` fine labels as in published code (default),
            or ``"superclass"``, the true superclasses.

    Raises:
        InputError: if the map, the sampling or the blocks are unknown or do not fit the classes.
    """
    chosen_map = _find_map(class_map, num_classes, blocks)
    sampling = chosen_map.sampling if sampling is None else sampling
    check_choice("sampling", sampling, get_args(Sampling))
    targets = np.arange(num_classes)
    targets[list(chosen_map.targets)] = list(chosen_map.targets.values())
    chosen = _choose(labels, targets, rate, sampling, generator)
    noisy = labels.copy()
    noisy[chosen] = targets[labels[chosen]]
    return Draw(noisy, _list_settings(class_map, chosen_map, sampling, blocks))


def _find_map(
    class_map: str | Mapping[int, int] | Mapping[str, int],
    num_classes: int,
    blocks: Blocks | None,
) -> ClassMap:
    if blocks is not None:
        check_choice("blocks", blocks, CIFAR100_BLOCKS)
        if class_map != "cifar100":
            raise InputError(
                f"`blocks` applies to class map 'cifar100' only, not to {class_map!r}."
            )
    if isinstance(class_map, Mapping):
        return _check_map(class_map, num_classes)
    check_choice("class_map", class_map, CLASS_MAPS)
    found = CLASS_MAPS[class_map]
    if num_classes != found.num_classes:
        raise InputError(
            f"Expected `num_classes` to be {found.num_classes} for class map {class_map!r}, "
            f"got {num_classes}."
        )
    if blocks is None:
        return found
    return ClassMap(make_cycles(CIFAR100_BLOCKS[blocks]), num_classes, found.sampling)


def _check_map(class_map: Mapping[int, int] | Mapping[str, int], num_classes: int) -> ClassMap:
    try:
        # Keys of a TOML or JSON table are always strings.
        targets = {
            int(source) if isinstance(source, str) else index(source): index(target)
            for source, target in class_map.items()
        }
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Expected `class_map` to map class indices, got {dict(class_map)!r}."
        ) from error
    classes = [*targets, *targets.values()]
    outside = [named for named in classes if not 0 <= named < num_classes]
    if outside:
        raise InputError(
            f"Expected `class_map` to name classes between 0 and {num_classes - 1}, "
            f"got {outside[0]}."
        )
    return ClassMap(targets, num_classes, "per-class")


def _choose(
    labels: Labels,
    targets: Labels,
    rate: float,
    sampling: Sampling,
    generator: np.random.Generator,
) -> Labels:
    """Return the positions whose label is replaced."""
    if sampling == "overall":
        return generator.choice(len(labels), size=int(rate * len(labels)), replace=False)
    if sampling == "independent":
        return np.flatnonzero(generator.random(len(labels)) < rate)
    members = [np.flatnonzero(labels == source) for source in _find_sources(targets)]
    chosen = [generator.choice(m, size=int(rate * len(m)), replace=False) for m in members]
    return np.concatenate([np.empty(0, dtype=np.int64), *chosen])


def _find_sources(targets: Labels) -> Labels:
    return np.flatnonzero(targets != np.arange(len(targets)))


def _list_settings(
    given: str | Mapping[int, int] | Mapping[str, int],
    used: ClassMap,
    sampling: Sampling,
    blocks: Blocks | None,
) -> dict[str, Any]:
    if isinstance(given, Mapping):
        own = {str(source): target for source, target in used.targets.items()}
        return {"class_map": own, "sampling": sampling}
    settings: dict[str, Any] = {"class_map": given, "sampling": sampling}
    if given == "cifar100":
        settings["blocks"] = blocks or "consecutive"
    return settings
