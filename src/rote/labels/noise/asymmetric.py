"""Asymmetric noise: some classes are mistaken for one other class each."""

from collections.abc import Mapping
from operator import index
from typing import Any, get_args

import numpy as np

from rote.arguments import check_choice
from rote.errors import InputError
from rote.labels.noise.class_maps import (
    CIFAR100_BLOCKS,
    CLASS_MAPS,
    Blocks,
    ClassMap,
    Sampling,
    cycles,
)
from rote.labels.noise.noisy_labels import Draw, Labels


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
    return Draw(noisy, _settings(class_map, chosen_map, sampling, blocks))


def _find_map(
    class_map: str | Mapping[int, int] | Mapping[str, int],
    num_classes: int,
    blocks: Blocks | None,
) -> ClassMap:
    if blocks is not None:
        check_choice("blocks", blocks, CIFAR100_BLOCKS)
        if class_map != "cifar100":
            raise InputError(
                f"Expected `blocks` to come with class map 'cifar100', got {class_map!r}."
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
    return ClassMap(cycles(CIFAR100_BLOCKS[blocks]), num_classes, found.sampling)


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
    members = [np.flatnonzero(labels == source) for source in _sources(targets)]
    chosen = [generator.choice(m, size=int(rate * len(m)), replace=False) for m in members]
    return np.concatenate([np.empty(0, dtype=np.int64), *chosen])


def _sources(targets: Labels) -> Labels:
    return np.flatnonzero(targets != np.arange(len(targets)))


def _settings(
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
