"""The data of a run: its given labels, and its division into training set, holdout and test set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rote.errors import InputError
from rote.labels.noise import CLASS_MAPS, NoisyLabels, add_noise
from rote.store import DAMAGED_ARRAYS
from rote.workloads.data.dataset import Array, Dataset, Labels
from rote.workloads.data.lookup import find_data_folder, find_path, load
from rote.workloads.data.npz_file import read_unlabeled
from rote.workloads.data.samples import Augmentation, SampleTensors, measure_normalization
from rote.workloads.randomness import derive_seed, make_numpy_generator
from rote.workloads.spec import (
    AnyNoise,
    AsymmetricNoise,
    FieldError,
    InstanceNoise,
    NoNoise,
    RunSpec,
)

AS_GIVEN = "as given"
"""The noise of a file that holds noisy labels beside the true ones."""


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """Labels with the known facts about them.

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
        return _describe_noise(
            _compare_human(truth, labels, dataset.num_classes), model=_name_noise(dataset)
        )
    noisy = _add_noise(spec.noise, dataset, labels, dataset.x_train, rows, seed=spec.data.seed)
    return _describe_noise(noisy, seed=derive_seed(spec.data.seed, "noise"))


def _describe_noise(noisy: NoisyLabels, **more: Any) -> GivenLabels:  # noqa: ANN401
    description = {**noisy.description, "realized_rate": noisy.realized_rate, **more}
    return GivenLabels(noisy.labels, noisy.mask, description)


def _name_noise(dataset: Dataset) -> str:
    """Return the name of the noise that the labels of a file came with."""
    if dataset.truth is dataset.y_train:
        return "none"
    return "human" if dataset.name == "cifar10n" else AS_GIVEN


def _compare_human(truth: Labels, labels: Labels, num_classes: int) -> NoisyLabels:
    return add_noise(
        truth,
        model="human",
        rate=None,
        num_classes=num_classes,
        generator=np.random.default_rng(0),  # human labels draw nothing
        table=labels,
    )


def _add_noise(
    noise: AnyNoise, dataset: Dataset, labels: Labels, inputs: Array, rows: Labels, *, seed: int
) -> NoisyLabels:
    options = dict(noise.options)
    if isinstance(noise, AsymmetricNoise) and noise.class_map is None:
        if dataset.name not in CLASS_MAPS:
            raise FieldError(
                "noise.class_map",
                f"is required for {dataset.name}. Published maps: {', '.join(CLASS_MAPS)}.",
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
            generator=make_numpy_generator(seed, "noise"),
            inputs=inputs[rows] if needs_inputs else None,
            **options,
        )
    except InputError as error:
        raise FieldError("noise", f"does not fit {dataset.name}: {error}") from error


HOLDOUT_SIZE = 512
HOLDOUT_SHARE = 10


@dataclass(frozen=True, eq=False)
class Splits:
    """The data of a run for training, probing and testing.

    Attributes:
        train: the training samples.
        labels: their given labels.
        wrong: which of these are wrong, where known.
        test: the test samples, if there are any.
        test_labels: their true labels.
        holdout: samples for the probe; S̃ is the first of them.
        holdout_labels: their given labels, when they were kept out of training.
        num_classes: the number of classes.
        in_channels: channels of images, or numbers per sample.
        image_size: height and width of images, or 1.
        is_images: whether samples are images.
        is_tokens: whether samples are token ids.
        description: what the data are, as JSON can hold it.
        record: arrays from which the division can be repeated.
    """

    train: SampleTensors
    labels: Tensor
    wrong: Tensor | None
    test: SampleTensors | None
    test_labels: Tensor | None
    holdout: Tensor
    holdout_labels: Tensor | None
    num_classes: int
    in_channels: int
    image_size: int
    is_images: bool
    is_tokens: bool
    description: dict[str, Any]
    record: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Division:
    """Positions of the training samples and of the holdout.

    Attributes:
        train: places among the used samples, ascending.
        holdout: places among the used samples; the first are S̃.
        held_out: whether the holdout is kept out of training.
    """

    train: Labels
    holdout: Labels
    held_out: bool


def prepare(
    spec: RunSpec,
    *,
    data_dir: Path | str | None = None,
    device: torch.device | None = None,
    dataset: Dataset | None = None,
) -> Splits:
    """Load and divide the data of a run; everything is drawn from the seed of the data.

    Args:
        spec: the run.
        data_dir: the folder of local data.
        device: the device of batches; the CPU by default.
        dataset: the data, if they were passed from Python; those of the spec by default.

    Raises:
        InputError: if the data are missing, or do not fit the spec.
    """
    dataset = load(spec.data, data_dir) if dataset is None else dataset
    _check_augmentation(spec, dataset)
    rows = _choose_subset(len(dataset.y_train), spec.data.train_size, spec, "train_size")
    given = give_labels(spec, dataset, rows)
    division = divide(spec, len(rows))
    build = _Builder(spec, dataset, rows, device or torch.device("cpu"))
    train, holdout = division.train, division.holdout
    return Splits(
        train=build.samples(dataset.x_train, rows[train], augmented=True),
        labels=build.tensor(given.labels[train]),
        wrong=None if given.wrong is None else build.tensor(given.wrong[train]),
        holdout=_read_holdout(build, spec, dataset, rows[holdout], data_dir).batch(slice(None)),
        holdout_labels=build.tensor(given.labels[holdout]) if division.held_out else None,
        num_classes=dataset.num_classes,
        in_channels=build.in_channels,
        image_size=build.image_size,
        is_images=dataset.inputs == "images",
        is_tokens=dataset.inputs == "tokens",
        description=_describe(dataset, given, division),
        record=_record_division(rows, given, division, dataset) | build.normalization,
        **_read_test(build, spec, dataset),
    )


def divide(spec: RunSpec, samples: int) -> Division:
    """Set the holdout aside: the same for every run with this data seed and holdout size.

    Raises:
        FieldError: if the holdout leaves too little to train on.
    """
    everything = np.arange(samples)
    # The name of the stream is fixed: it drew the holdout of every recorded run.
    generator = make_numpy_generator(spec.data.seed, "pool")
    if spec.probe.holdout != "auto":
        size = min(spec.probe.batch, samples) if spec.probe.holdout == "train" else 0
        return Division(everything, generator.choice(samples, size, replace=False), held_out=False)
    if spec.probe.folds is not None:
        return _divide_fold(spec, samples)
    if spec.probe.holdout_rows is not None:
        holdout = _read_positions(spec.probe.holdout_rows, samples)
        return Division(np.setdiff1d(everything, holdout), holdout, held_out=True)
    size = spec.probe.holdout_size or max(1, min(HOLDOUT_SIZE, samples // HOLDOUT_SHARE))
    if size > samples - 2:
        raise FieldError(
            "probe.holdout_size",
            f"to leave at least 2 of {samples} samples to train on, got {size}.",
        )
    holdout = generator.choice(samples, size, replace=False)
    return Division(np.setdiff1d(everything, holdout), holdout, held_out=True)


def _read_positions(file: str, samples: int) -> Labels:
    path = find_path(file, None, "probe.holdout_rows")
    try:
        found = np.load(path, allow_pickle=False)
    except DAMAGED_ARRAYS as error:
        raise FieldError("probe.holdout_rows", f"cannot be read: {error}.") from error
    is_fit = isinstance(found, np.ndarray) and found.ndim == 1 and found.dtype.kind in "iu"
    if not is_fit or not len(found) or len(np.unique(found)) != len(found):
        raise FieldError("probe.holdout_rows", "to hold distinct positions of samples.")
    if found.min() < 0 or found.max() >= samples or len(found) > samples - 2:
        raise FieldError(
            "probe.holdout_rows",
            f"to hold positions from 0 to {samples - 1} that leave 2 samples to train on, got "
            f"{found.min()} to {found.max()}.",
        )
    return np.asarray(found, dtype=np.int64)


def _divide_fold(spec: RunSpec, samples: int) -> Division:
    """Hold out one of several folds, which together contain every sample once."""
    folds = spec.probe.folds or 1
    if samples < 2 * folds:
        raise FieldError(
            "probe.folds", f"to be at most half of the {samples} samples, got {folds}."
        )
    order = make_numpy_generator(spec.data.seed, "folds").permutation(samples)
    holdout = np.array_split(order, folds)[spec.probe.fold]
    return Division(np.setdiff1d(order, holdout), holdout, held_out=True)


class _Builder:
    """Makes tensors of one run's data."""

    def __init__(self, spec: RunSpec, dataset: Dataset, rows: Labels, device: torch.device) -> None:
        self._spec = spec
        self._kind = dataset.inputs
        self._device = device
        self._normalization = measure_normalization(dataset.inputs, dataset.x_train, rows)
        shape = dataset.sample_shape
        self.in_channels = shape[2] if self._kind == "images" else shape[0]
        self.image_size = shape[0] if self._kind == "images" else 1

    def samples(self, source: Array, places: Labels, *, augmented: bool = False) -> SampleTensors:
        """Return samples, normalized by the training set."""
        augmentation = Augmentation(self._spec.data.crop, self._spec.data.flip)
        return SampleTensors(
            source,
            places,
            kind=self._kind,
            normalization=self._normalization,
            device=self._device,
            channels_last=self._spec.channels_last,
            augmentation=augmentation if augmented and augmentation.changes else None,
        )

    @property
    def normalization(self) -> dict[str, Array]:
        """Scale and shift per channel or column, from which predictions are made later."""
        found = self._normalization
        if found is None:
            return {}
        width = found.scale.shape[-1]
        parts = {"scale": found.scale, "shift": found.shift}
        return {name: part.reshape(-1, width)[0].numpy() for name, part in parts.items()}

    def tensor(self, values: Array) -> Tensor:
        """Return labels or masks on the device."""
        return torch.from_numpy(values).to(self._device)


def _check_augmentation(spec: RunSpec, dataset: Dataset) -> None:
    for field in ("crop", "flip"):
        given = getattr(spec.data, field)
        if given and dataset.inputs != "images":
            raise FieldError(f"data.{field}", f"applies to images only, not to {dataset.inputs}.")
    size = dataset.sample_shape[0]
    if spec.data.crop > size:
        raise FieldError(
            "data.crop", f"to be at most {size}, the size of the images, got {spec.data.crop}."
        )


def _choose_subset(samples: int, size: int | None, spec: RunSpec, field: str) -> Labels:
    """Return places of the samples that are used, ascending."""
    if size is None:
        return np.arange(samples)
    if size > samples:
        raise FieldError(f"data.{field}", f"to be at most {samples}, got {size}.")
    chosen = make_numpy_generator(spec.data.seed, field).choice(samples, size, replace=False)
    return np.sort(chosen)


def _read_holdout(
    build: _Builder, spec: RunSpec, dataset: Dataset, rows: Labels, data_dir: Path | str | None
) -> SampleTensors:
    if spec.probe.holdout in ("auto", "train"):
        return build.samples(dataset.x_train, rows)
    path = find_path(spec.probe.holdout, find_data_folder(data_dir), "probe.holdout")
    foreign = read_unlabeled(path, dataset)
    return build.samples(foreign, np.arange(len(foreign)))


def _read_test(build: _Builder, spec: RunSpec, dataset: Dataset) -> dict[str, Any]:
    if dataset.x_test is None or dataset.y_test is None:
        if spec.data.test_size is not None:
            raise FieldError("data.test_size", "does not apply: the data have no test set.")
        return {"test": None, "test_labels": None}
    rows = _choose_subset(len(dataset.y_test), spec.data.test_size, spec, "test_size")
    return {
        "test": build.samples(dataset.x_test, rows),
        "test_labels": build.tensor(dataset.y_test[rows]),
    }


def _describe(dataset: Dataset, given: GivenLabels, division: Division) -> dict[str, Any]:
    named = {"class_names": list(dataset.class_names)} if dataset.class_names else {}
    return {
        "name": dataset.name,
        "source": dataset.source,
        "inputs": dataset.inputs,
        "num_classes": dataset.num_classes,
        "shape": list(dataset.sample_shape),
        **named,
        **({"remarks": list(dataset.remarks)} if dataset.remarks else {}),
        "train": len(division.train),
        "holdout": len(division.holdout) if division.held_out else 0,
        "noise": given.description,
    }


def _record_division(
    rows: Labels, given: GivenLabels, division: Division, dataset: Dataset
) -> dict[str, Array]:
    record: dict[str, Array] = {
        "rows": rows.astype(np.uint32),
        "labels": given.labels.astype(np.uint16),
        "train": division.train.astype(np.uint32),
        "holdout": division.holdout.astype(np.uint32),
    }
    if dataset.table_rows is not None:
        record["table_rows"] = dataset.table_rows[rows].astype(np.uint32)
    if dataset.files:
        record["files"] = np.array(dataset.files)[rows]
    return record if given.wrong is None else record | {"wrong": given.wrong}
