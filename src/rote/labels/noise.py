"""Label noise: clean labels in, noisy labels with mask and realized rate out. NumPy only."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rote.arguments import check_choice, check_integer, check_number
from rote.errors import InputError

__all__ = ["CLASS_MAPS", "NOISE_MODELS", "ClassMap", "NoisyLabels", "add_noise"]

Labels: TypeAlias = NDArray[np.int64]
Sampling: TypeAlias = Literal["independent", "per-class", "overall"]
Blocks: TypeAlias = Literal["consecutive", "superclass"]

_RATE_DEVIATION = 0.1
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Draw:
    """Labels drawn by one noise model, with the settings that only this model has.

    Args:
        labels: one label per sample.
        settings: what was used, as JSON can hold it.
    """

    labels: Labels
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Labels with noise, and what is known about the noise.

    Args:
        labels: one noisy label per sample.
        mask: true where the label differs from the clean one.
        realized_rate: share of labels that differ, the mean of ``mask``.
        requested_rate: the rate asked for; None for human labels. Under most models it is not
            the share of wrong labels.
        model: name of the noise model.
        description: model, rate, number of classes and settings, as JSON can hold them. The
            generator is the caller's, so no seed is in here.
    """

    labels: Labels
    mask: NDArray[np.bool_]
    realized_rate: float
    requested_rate: float | None
    model: str
    description: Mapping[str, Any]


def check_labels(name: str, labels: ArrayLike, num_classes: int) -> Labels:
    """Return the labels, one class per sample, as a new array.

    Raises:
        InputError: if the labels are not integers in one dimension, are none, or name a class
            outside ``range(num_classes)``.
    """
    given = np.asarray(labels)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer) or not given.size:
        raise InputError(
            f"Expected `{name}` to be a one-dimensional array of at least one integer, "
            f"got {given.dtype} of shape {given.shape}."
        )
    outside = given[(given < 0) | (given >= num_classes)]
    if outside.size:
        raise InputError(
            f"Expected `{name}` to lie between 0 and {num_classes - 1} (`num_classes` - 1), "
            f"got {outside[0]}."
        )
    return given.astype(np.int64)


def symmetric_inclusive(
    labels: Labels, *, rate: float, num_classes: int, generator: np.random.Generator
) -> Draw:
    """Resample exactly round(r·n) labels uniformly over all c classes, the paper's noise.

    A resampled label is right by chance with probability 1/c, so the expected share of wrong labels
    is r·(1 − 1/c): 45 % at "50 %" with 10 classes.
    """
    chosen = _choose_samples(len(labels), rate, generator)
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
    chosen = _choose_samples(len(labels), rate, generator)
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


def _choose_samples(size: int, rate: float, generator: np.random.Generator) -> Labels:
    return generator.choice(size, size=round(rate * size), replace=False)


@dataclass(frozen=True)
class ClassMap:
    """A published map.

    Args:
        targets: class → the class it is mistaken for; classes left out keep their labels.
        num_classes: the number of classes the data set has.
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
        num_classes: the number of classes.
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
    chosen = _choose_mistaken(labels, targets, rate, sampling, generator)
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


def _choose_mistaken(
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


def instance(
    labels: Labels,
    *,
    rate: float,
    num_classes: int,
    generator: np.random.Generator,
    inputs: NDArray[np.generic] | None,
    input_scale: float = 1.0,
) -> Draw:
    """Draw each label from a distribution computed from its input and its class.

    With q_i from a normal of mean r and deviation 0.1 truncated to [0, 1], and one random
    projection W_y (entries from N(0, 1)) per class y, sample i keeps its label with probability
    1 − q_i and takes another class with probability q_i · softmax over the other classes of
    x_i·W_y. Truncation moves the mean of q_i toward 0.5 when r is near 0 or 1; r = 0 changes
    nothing.

    Args:
        labels: clean labels.
        rate: r, the mean flip rate before truncation.
        num_classes: the number of classes.
        generator: source of the draws.
        inputs: one array per sample, of any shape, flattened.
        input_scale: multiplies the inputs. The softmax is spread out only while the length of a
            flattened, scaled input is of the order of 1; a 32×32 image in [0, 1] has a length of
            about 30, and then almost all flips of a class go to one other class.

    Raises:
        InputError: if the inputs are missing, not numbers, not finite or not as many as the
            labels, or the scale is not positive.
    """
    scale = check_number("input_scale", input_scale, above=0)
    samples = _check_inputs(inputs, len(labels))
    settings = {"input_scale": scale}
    if rate == 0:
        return Draw(labels.copy(), settings)
    flip_rates = _draw_truncated_normal(rate, len(labels), generator)
    uniform = generator.random(len(labels))
    noisy = np.empty_like(labels)
    for source in range(num_classes):
        projection = scale * generator.standard_normal((samples[0].size, num_classes))
        members = np.flatnonzero(labels == source)
        for first in range(0, len(members), _ROWS_AT_ONCE):
            rows = members[first : first + _ROWS_AT_ONCE]
            scores = _check_finite(samples, rows) @ projection
            chances = _label_chances(scores, source, flip_rates[rows])
            noisy[rows] = _pick(chances, uniform[rows])
    return Draw(noisy, settings)


def _check_inputs(inputs: NDArray[np.generic] | None, size: int) -> NDArray[np.generic]:
    if inputs is None:
        raise InputError("Model 'instance' needs `inputs`, which has one sample per label.")
    samples = inputs if isinstance(inputs, np.ndarray) else np.asarray(inputs)
    kind = samples.dtype
    if not (np.issubdtype(kind, np.integer) or np.issubdtype(kind, np.floating)):
        raise InputError(f"Expected `inputs` to be an array of real numbers, got {kind}.")
    if samples.ndim == 0 or len(samples) != size:
        raise InputError(
            f"Expected `inputs` to hold one sample per label ({size}), got shape {samples.shape}."
        )
    return samples


def _check_finite(samples: NDArray[np.generic], rows: Labels) -> NDArray[np.float64]:
    block = samples[rows].reshape(len(rows), -1).astype(np.float64)
    finite = np.isfinite(block).all(axis=1)
    if not finite.all():
        raise InputError(
            f"Expected `inputs` to be finite, got NaN or infinity in sample {rows[~finite][0]}."
        )
    return block


def _draw_truncated_normal(
    mean: float, size: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw again what falls outside [0, 1]; with a mean inside, at least half of the draws stay."""
    draws = generator.normal(mean, _RATE_DEVIATION, size)
    while (outside := (draws < 0) | (draws > 1)).any():
        draws[outside] = generator.normal(mean, _RATE_DEVIATION, int(outside.sum()))
    return draws


def _label_chances(
    scores: NDArray[np.float64], source: int, flip_rates: NDArray[np.float64]
) -> NDArray[np.float64]:
    scores[:, source] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: NDArray[np.float64] = (
        flip_rates[:, None] * weights / weights.sum(axis=1, keepdims=True)
    )
    chances[:, source] = 1 - flip_rates
    return chances


def _pick(chances: NDArray[np.float64], uniform: NDArray[np.float64]) -> Labels:
    cumulative = chances.cumsum(axis=1)
    # Scaled to the last sum, which rounding leaves a little off 1, so that no draw falls beyond.
    reached = cumulative <= (uniform * cumulative[:, -1])[:, None]
    labels: Labels = np.minimum(reached.sum(axis=1), chances.shape[1] - 1)
    return labels


def human(labels: Labels, *, num_classes: int, table: ArrayLike | None) -> Draw:
    """Take the labels that people gave, as those of CIFAR-10N, in place of the clean ones.

    Raises:
        InputError: if the table is missing, has another length, or holds other than classes.
    """
    if table is None:
        raise InputError("Model 'human' needs `table`, which has one label per sample.")
    given = check_labels("table", table, num_classes)
    if len(given) != len(labels):
        raise InputError(
            f"Expected `table` to hold one label per sample ({len(labels)}), got {len(given)}."
        )
    return Draw(given)


NOISE_MODELS: dict[str, Callable[..., Draw]] = {
    "symmetric-inclusive": symmetric_inclusive,
    "symmetric-exclusive": symmetric_exclusive,
    "pair": pair,
    "trid": trid,
    "asymmetric": asymmetric,
    "instance": instance,
    "human": human,
}
"""Name → function that draws the labels; its keyword arguments are the model's options."""

_SHARED = ("labels", "rate", "num_classes", "generator", "inputs", "table")


def add_noise(
    labels: ArrayLike,
    *,
    model: str,
    rate: float | None,
    num_classes: int,
    generator: np.random.Generator,
    inputs: NDArray[np.generic] | None = None,
    table: ArrayLike | None = None,
    **options: Any,  # noqa: ANN401  (whatever the model takes)
) -> NoisyLabels:
    """Put noise on clean labels.

    Args:
        labels: clean labels, integers in one dimension; left as they are.
        model: a key of ``NOISE_MODELS``.
        rate: how much noise, from 0 (none) to 1, as the model defines it; None for ``"human"``.
        num_classes: the number of classes.
        generator: source of every draw; equal states give equal labels.
        inputs: the inputs, needed by ``"instance"`` and otherwise not read.
        table: the labels that people gave, for ``"human"`` only.
        **options: ``class_map``, ``sampling``, ``blocks`` of ``"asymmetric"``; ``input_scale``
            of ``"instance"``.

    Returns:
        The noisy labels with mask, realized rate and description.

    Raises:
        InputError: if an argument does not fit; the generator has then not been drawn from,
            unless ``inputs`` turn out not to be finite.

    Example:
        >>> noisy = add_noise(
        ...     np.arange(10).repeat(10),
        ...     model="symmetric-exclusive",
        ...     rate=0.4,
        ...     num_classes=10,
        ...     generator=np.random.default_rng(0),
        ... )
        >>> noisy.realized_rate, int(noisy.mask.sum())
        (0.4, 40)
    """
    check_choice("model", model, NOISE_MODELS)
    num_classes = check_integer("num_classes", num_classes, least=2)
    clean = check_labels("labels", labels, num_classes)
    if not isinstance(generator, np.random.Generator):
        raise InputError(
            f"Expected `generator` to be a numpy.random.Generator, got {type(generator).__name__}."
        )
    draw = NOISE_MODELS[model]
    parameters = inspect.signature(draw).parameters
    _check_options(model, list(parameters), options)
    requested = _check_requested_rate(model, rate, "rate" in parameters)
    if table is not None and "table" not in parameters:
        raise InputError(f"Model {model!r} takes no `table`. Leave it out.")
    shared = {
        "rate": requested,
        "num_classes": num_classes,
        "generator": generator,
        "inputs": inputs,
        "table": table,
    }
    drawn = draw(clean, **{key: shared[key] for key in shared if key in parameters}, **options)
    mask = drawn.labels != clean
    return NoisyLabels(
        labels=drawn.labels,
        mask=mask,
        realized_rate=float(mask.mean()),
        requested_rate=requested,
        model=model,
        description={
            "model": model,
            "rate": requested,
            "num_classes": num_classes,
            **drawn.settings,
        },
    )


def _check_requested_rate(model: str, rate: float | None, takes_rate: bool) -> float | None:
    if takes_rate:
        return check_number("rate", rate, least=0, most=1)
    if rate is not None:
        raise InputError(
            f"Model {model!r} takes its labels from a table and has no `rate`, got {rate!r}. "
            "Leave it out."
        )
    return None


def _check_options(model: str, parameters: list[str], options: dict[str, Any]) -> None:
    accepted = [name for name in parameters if name not in _SHARED]
    for name in options:
        if not accepted:
            raise InputError(f"Model {model!r} has no option {name!r}. Leave it out.")
        check_choice("options", name, accepted)
    if "class_map" in accepted and "class_map" not in options:
        raise InputError(f"Model {model!r} needs `class_map`.")
