"""A set in the layout ``x_train, y_train, x_test, y_test``, with further labels beside them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from rote.errors import InputError
from rote.workloads.data.arrays import ArrayFile
from rote.workloads.data.dataset import Array, Dataset, Labels, as_images, as_labels, as_numbers
from rote.workloads.spec import FieldError, InputKind

DEFAULT_VOCABULARY = 2000


class Arrays(Protocol):
    """Named arrays, wherever they are."""

    names: list[str]

    @property
    def path(self) -> Path | str:
        """The path of the arrays."""

    def __contains__(self, name: str) -> bool: ...

    def read(self, name: str) -> Array:
        """One of the arrays."""


@dataclass(frozen=True)
class FileLayout:
    """The meaning of the arrays of a file.

    Attributes:
        name: the name of the data set.
        labels: train on these labels instead of ``y_train``, which is then the truth.
        is_truth: whether ``y_train`` is known to be right.
        inputs: what the samples are; ``auto`` tells from their type and shape.
        vocabulary: the number of words to count.
    """

    name: str
    labels: str | None = None
    is_truth: bool = False
    inputs: InputKind | str = "auto"
    vocabulary: int | None = None


def read_npz(file: Arrays, how: FileLayout) -> Dataset:
    """Read a set.

    Samples are ``x_train`` and ``x_test``, or texts ``text_train`` and ``text_test``. Training
    samples whose label is −1 have none, and are left out.

    Raises:
        InputError: if an array is missing or does not fit.
    """
    prefix = "text" if "text_train" in file and "x_train" not in file else "x"
    x_train = file.read(f"{prefix}_train")
    x_test = file.read(f"{prefix}_test") if f"{prefix}_test" in file else None
    kind = _guess_kind(x_train, how)
    x_train, x_test = _convert(kind, x_train, x_test, how)
    y_train, truth = _read_labels(file, how, len(x_train))
    y_test = None if x_test is None else as_labels("y_test", file.read("y_test"), len(x_test))
    if (y_train < 0).any():
        named = y_train >= 0
        x_train, y_train = x_train[named], y_train[named]
        truth = None if truth is None else truth[named]
    return Dataset(
        name=how.name,
        source=str(file.path),
        inputs=kind,
        x_train=x_train,
        y_train=y_train,
        truth=truth,
        x_test=x_test,
        y_test=y_test,
        num_classes=_count_classes(file, y_train, truth, y_test),
        class_names=_read_class_names(file),
    )


def read_unlabeled(path: Path, dataset: Dataset) -> Array:
    """Read samples for the holdout: ``x`` (or ``x_train``) of a separate file.

    Raises:
        InputError: if they are not like those of the set.
    """
    if dataset.inputs == "bag-of-words":
        raise FieldError(
            "probe.holdout",
            "is a path, which does not work for texts: their words are counted together with the "
            "training set. Use 'auto' or 'train'.",
        )
    file = ArrayFile(path)
    name = "x" if "x" in file else "x_train"
    samples = file.read(name)
    samples = as_images(name, samples) if dataset.inputs == "images" else samples
    if tuple(samples.shape[1:]) != dataset.sample_shape:
        raise InputError(
            f"Expected `{name}` of {path} to hold samples of shape {dataset.sample_shape}, as in "
            f"training, got {samples.shape[1:]}."
        )
    return samples


def count_words(train: Array, test: Array | None, vocabulary: int) -> tuple[Array, Array | None]:
    """Weight the words of each text by their count in it and their rarity (TF-IDF).

    log(1 + count) · inverse document frequency, dense rows of length 1 (scikit-learn's tf-idf with
    logarithmic counts); words and weights are those of the training set.

    Args:
        train: texts, or token ids (samples, length) with −1 for padding.
        test: further ones.
        vocabulary: the number of words that are counted, the most frequent ones.

    Raises:
        InputError: if these are neither texts nor ids, or there is no word in them.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    is_text = train.dtype.kind in "UO" and train.ndim == 1  # objects: texts of any length
    if not is_text and (train.dtype.kind not in "iu" or train.ndim != 2):
        raise InputError(
            "Expected words to be texts, or integer token ids (samples, length), got "
            f"{train.dtype} of shape {train.shape}."
        )
    counter = TfidfVectorizer(
        max_features=vocabulary,
        sublinear_tf=True,
        dtype=np.float32,
        **({} if is_text else {"analyzer": _drop_padding}),
    )
    try:
        rows = counter.fit_transform(train)
    except ValueError as error:
        raise InputError(f"The texts contain no words: {error}") from error
    return rows.toarray(), None if test is None else counter.transform(test).toarray()


def _guess_kind(x: Array, how: FileLayout) -> InputKind:
    if how.inputs != "auto":
        return how.inputs  # type: ignore[return-value]
    if x.dtype.kind == "U":
        return "bag-of-words"
    if x.ndim in (3, 4):
        return "images"
    if x.ndim == 2 and x.dtype.kind == "f":
        return "features"
    raise FieldError(
        "data.inputs",
        f"is required for {x.dtype} samples of shape {x.shape}: images, features, bag-of-words or "
        "tokens.",
    )


def _convert(
    kind: InputKind, x_train: Array, x_test: Array | None, how: FileLayout
) -> tuple[Array, Array | None]:
    if kind == "bag-of-words":
        size = how.vocabulary or DEFAULT_VOCABULARY
        return count_words(x_train, x_test, size)
    if how.vocabulary is not None:
        raise FieldError("data.vocabulary", f"applies to texts only, not to {kind}.")
    convert = {"images": as_images, "features": _as_rows, "tokens": _as_tokens}[kind]
    return convert("x_train", x_train), None if x_test is None else convert("x_test", x_test)


def _as_rows(name: str, x: Array) -> Array:
    numbers = as_numbers(name, x)
    return numbers.reshape(len(numbers), -1)


def _as_tokens(name: str, x: Array) -> Array:
    if x.ndim != 2 or x.dtype.kind not in "iu":
        raise InputError(
            f"Expected `{name}` to be token ids (samples, length), got {x.dtype} of shape "
            f"{x.shape}."
        )
    return x


def _read_labels(file: Arrays, how: FileLayout, samples: int) -> tuple[Labels, Labels | None]:
    """Return the given labels, and the true ones where known."""
    plain = as_labels("y_train", file.read("y_train"), samples)
    if how.labels is None:
        if "y_train_clean" in file:
            return plain, as_labels("y_train_clean", file.read("y_train_clean"), samples)
        return plain, plain if how.is_truth else None
    for name in (f"y_train_{how.labels}", f"y_{how.labels}"):
        if name in file:
            return as_labels(name, file.read(name), samples), plain
    sets = [name for name in file.names if name.startswith("y_")]
    raise FieldError(
        "data.labels",
        f"names no labels in {file.path}: it has neither y_train_{how.labels} nor "
        f"y_{how.labels}, only {', '.join(sets)}.",
    )


def _count_classes(file: Arrays, *labels: Labels | None) -> int:
    largest = max(int(entries.max(initial=0)) for entries in labels if entries is not None)
    return max(largest + 1, len(_read_class_names(file)), 2)


def _read_class_names(file: Arrays) -> tuple[str, ...]:
    return tuple(map(str, file.read("class_names"))) if "class_names" in file else ()


def _drop_padding(row: Array) -> list[int]:
    """Return the token ids of one sample, without padding."""
    kept: list[int] = row[row >= 0].tolist()
    return kept
