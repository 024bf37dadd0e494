"""Noise models by name, the one way to apply them, and noise that goes by the class alone."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rote.arguments import check_choice, check_integer, check_number
from rote.errors import InputError
from rote.labels.noise.asymmetric import asymmetric
from rote.labels.noise.instance import instance
from rote.labels.noise.noisy_labels import Draw, Labels, NoisyLabels, check_labels


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
        num_classes: how many classes.
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
