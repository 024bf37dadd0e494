"""Which labels a run is given: those of the data, with noise, and which of them are wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rote.errors import InputError
from rote.labels.noise import CLASS_MAPS, NoisyLabels, add_noise
from rote.workloads.data.dataset import Array, Dataset, Labels
from rote.workloads.randomness import numpy_generator, seed_of
from rote.workloads.spec import (
    AnyNoise,
    AsymmetricNoise,
    FieldError,
    InstanceNoise,
    NoNoise,
    RunSpec,
)

AS_GIVEN = "as given"
"""The noise of a file that holds noisy labels beside the right ones."""


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """Labels, and what is known about them.

    Attributes:
        labels: one per sample.
        wrong: true where the label is not the right one; None where that is not known.
        description: noise model, rates and seed, as JSON can hold them.
    """

    labels: Labels
    wrong: NDArray[np.bool_] | None
    description: dict[str, Any]


def give_labels(spec: RunSpec, dataset: Dataset, rows: Labels) -> GivenLabels:
    """Draw the labels of those training samples that are used, from the seed of the data.

    Noise is put on the labels of the data, whether or not these are known to be right: a label is
    called wrong when the noise changed it.

    Raises:
        FieldError: if the noise does not fit the data.
    """
    labels = dataset.y_train[rows]
    truth = None if dataset.truth is None else dataset.truth[rows]
    if isinstance(spec.noise, NoNoise):
        if truth is None:
            return GivenLabels(labels, None, {"model": None, "realized_rate": None})
        return _as_given(_human(truth, labels, dataset.num_classes), model=_model_of(dataset))
    noisy = _noisy(spec.noise, dataset, labels, dataset.x_train, rows, seed=spec.data.seed)
    return _as_given(noisy, seed=seed_of(spec.data.seed, "noise"))


def _as_given(noisy: NoisyLabels, **more: Any) -> GivenLabels:  # noqa: ANN401
    description = {**noisy.description, "realized_rate": noisy.realized_rate, **more}
    return GivenLabels(noisy.labels, noisy.mask, description)


def _model_of(dataset: Dataset) -> str:
    """Whether people, rules or a machine labeled a file is not known; it came so."""
    if dataset.truth is dataset.y_train:
        return "none"
    return "human" if dataset.name == "cifar10n" else AS_GIVEN


def _human(truth: Labels, labels: Labels, num_classes: int) -> NoisyLabels:
    return add_noise(
        truth,
        model="human",
        rate=None,
        num_classes=num_classes,
        generator=np.random.default_rng(0),  # human labels draw nothing
        table=labels,
    )


def _noisy(
    noise: AnyNoise, dataset: Dataset, labels: Labels, inputs: Array, rows: Labels, *, seed: int
) -> NoisyLabels:
    options = dict(noise.options)
    if isinstance(noise, AsymmetricNoise) and noise.class_map is None:
        if dataset.name not in CLASS_MAPS:
            raise FieldError(
                "noise.class_map",
                f"to be given for {dataset.name}, for which none is published "
                f"({', '.join(CLASS_MAPS)}), got nothing.",
            )
        options["class_map"] = dataset.name
    needs_inputs = isinstance(noise, InstanceNoise)
    if needs_inputs:
        options.setdefault("input_scale", 1 / 255 if inputs.dtype == np.uint8 else 1.0)
    try:
        return add_noise(
            labels,
            model=noise.model,  # type: ignore[attr-defined]  # every kind of noise has one
            rate=noise.rate,
            num_classes=dataset.num_classes,
            generator=numpy_generator(seed, "noise"),
            inputs=inputs[rows] if needs_inputs else None,
            **options,
        )
    except InputError as error:
        raise FieldError("noise", f"to fit {dataset.name}, got: {error}") from error
