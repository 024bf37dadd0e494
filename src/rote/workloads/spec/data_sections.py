"""The data and noise sections of a spec."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from rote.workloads.spec.section import (
    MOST_SEED,
    Above,
    AtLeast,
    Between,
    FieldError,
    Options,
    Section,
)

SetName: TypeAlias = Literal[
    "digits",
    "mnist",
    "fashion_mnist",
    "cifar10",
    "cifar100",
    "svhn",
    "tiny_imagenet",
    "animal10n",
    "clothing1m",
    "cifar10n",
]
LabelSet: TypeAlias = Literal["aggre", "random1", "random2", "random3", "worse"]
InputKind: TypeAlias = Literal["images", "features", "bag-of-words", "tokens"]

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")

IMAGE_SIZE = 32
"""Height and width to which images of a folder, or of different sizes, are scaled."""


@dataclass(frozen=True, kw_only=True)
class AnyData(Section):
    """The settings that all kinds of data share.

    Attributes:
        seed: from which subset, noise and holdout are drawn; apart from the seed of the run, so
            that all runs of a sweep see the same data.
        train_size: the number of random samples to train on (with the holdout); all by default.
        test_size: the number of samples to test on.
        crop: the number of pixels to pad images by before a random crop; 0 for no crop.
        flip: mirror images at random.
    """

    tag: ClassVar[str | None] = "name"

    seed: Annotated[int, Between(0, MOST_SEED)] = 0
    train_size: Annotated[int, AtLeast(2)] | None = None
    test_size: Annotated[int, AtLeast(1)] | None = None
    crop: Annotated[int, AtLeast(0)] = 0
    flip: bool = False

    @classmethod
    def implied_tag(cls, values: Mapping[str, Any]) -> str | None:
        """Return the kind of a path by its suffix: arrays, a table, or a folder."""
        path = values.get("path")
        if not isinstance(path, str):
            return None
        suffix = PurePath(path).suffix.lower()
        return "npz" if suffix == ".npz" else "table" if suffix in TABLE_SUFFIXES else "folder"


@dataclass(frozen=True, kw_only=True)
class NamedData(AnyData):
    """A set that rote knows.

    Attributes:
        name: which.
        source: ``local`` (the data folder), ``hub`` (Hugging Face), or ``auto``: local if it is
            there.
        labels: which human labels of ``cifar10n`` to train on.
    """

    name: SetName = "digits"
    source: Literal["auto", "local", "hub"] = "auto"
    labels: LabelSet | None = None

    def check(self) -> None:
        """Human labels belong to ``cifar10n``, which has no others; digits are always here."""
        if self.name == "digits" and self.source != "auto":
            raise FieldError("source", "does not apply to digits, which come with scikit-learn.")
        if self.name == "cifar10n" and self.labels is None:
            sets = ", ".join(get_args(LabelSet))
            raise FieldError("labels", f"is required for cifar10n: one of {sets}.")
        if self.name != "cifar10n" and self.labels is not None:
            raise FieldError("labels", f"applies to cifar10n only, not to {self.name}.")


@dataclass(frozen=True, kw_only=True)
class NpzData(AnyData):
    """A user's own arrays: ``x_train, y_train`` and, if known, ``x_test, y_test``.

    Attributes:
        name: ``npz``.
        path: the file; looked up in the data folder if it is not there.
        labels: train on ``y_train_<labels>`` (or ``y_<labels>``), with ``y_train`` as the truth.
        inputs: what the arrays hold; guessed from their type and shape by default. ``features`` are
            numbers in columns, ``bag-of-words`` counts, token ids or texts to be counted,
            ``tokens`` ids for a model of the user's own.
        vocabulary: the number of words of texts to count, the most frequent ones.
    """

    name: Literal["npz"] = "npz"
    path: str
    labels: str | None = None
    inputs: InputKind | Literal["auto"] = "auto"
    vocabulary: Annotated[int, AtLeast(2)] | None = None

    def check(self) -> None:
        """Only words are counted."""
        if self.vocabulary is not None and self.inputs not in ("auto", "bag-of-words"):
            raise FieldError(
                "vocabulary", f"applies to texts and token ids only, not to {self.inputs}."
            )


@dataclass(frozen=True, kw_only=True)
class TableData(AnyData):
    """A user's own table, CSV or Parquet: a column of labels, and columns of numbers or texts.

    Attributes:
        name: ``table``.
        path: the file; looked up in the data folder if it is not there.
        label: the column of given labels.
        truth: the column of true labels; ``label_clean`` by default, if there is one.
        columns: the columns that are inputs; by default all that are understood.
        vocabulary: the number of words of texts to count, the most frequent ones.
    """

    name: Literal["table"] = "table"
    path: str
    label: str = "label"
    truth: str | None = None
    columns: tuple[str, ...] = ()
    vocabulary: Annotated[int, AtLeast(2)] | None = None


@dataclass(frozen=True, kw_only=True)
class FolderData(AnyData):
    """A folder of image or text files, one subfolder per class; or one with lists of images.

    Attributes:
        name: ``folder``.
        path: the folder; looked up in the data folder if it is not there.
        image_size: height and width to which images are scaled.
        vocabulary: the number of words of texts to count, the most frequent ones.
    """

    name: Literal["folder"] = "folder"
    path: str
    image_size: Annotated[int, Between(8, 4096)] = IMAGE_SIZE
    vocabulary: Annotated[int, AtLeast(2)] | None = None


@dataclass(frozen=True, kw_only=True)
class GivenData(AnyData):
    """Data passed from Python (``train(spec, data=frame)``); no file can repeat it.

    Attributes:
        name: ``given``.
        fingerprint: of all samples and labels, so that other data are another run.
    """

    name: Literal["given"] = "given"
    fingerprint: str


Data: TypeAlias = NamedData | NpzData | TableData | FolderData | GivenData


@dataclass(frozen=True, kw_only=True)
class NoNoise(Section):
    """Labels as they come."""

    tag: ClassVar[str | None] = "model"

    model: Literal["none"] = "none"


@dataclass(frozen=True, kw_only=True)
class AnyNoise(Section):
    """The settings that all kinds of noise share.

    Attributes:
        rate: how much, as the model defines it.
    """

    tag: ClassVar[str | None] = "model"

    rate: Annotated[float, Between(0, 1)]

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of this model alone that are given, as ``add_noise`` takes them."""
        given = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name not in ("model", "rate") and value is not None:
                given[entry.name] = value
        return given


@dataclass(frozen=True, kw_only=True)
class PlainNoise(AnyNoise):
    """Noise that needs a rate only; ``symmetric-inclusive`` is the paper's.

    Attributes:
        model: which.
    """

    model: Literal["symmetric-inclusive", "symmetric-exclusive", "pair", "trid"]


@dataclass(frozen=True, kw_only=True)
class AsymmetricNoise(AnyNoise):
    """Some classes are mistaken for one other class each.

    Attributes:
        model: ``asymmetric``.
        class_map: the name of a published map, or a table of classes; the map published for the
            data set by default.
        sampling: how the labels to change are chosen; as published with the map by default.
        blocks: which classes of CIFAR-100 are mistaken for each other.
    """

    model: Literal["asymmetric"] = "asymmetric"
    class_map: str | Options | None = None
    sampling: Literal["independent", "per-class", "overall"] | None = None
    blocks: Literal["consecutive", "superclass"] | None = None


@dataclass(frozen=True, kw_only=True)
class InstanceNoise(AnyNoise):
    """Instance-dependent noise: the new label depends on the input.

    Attributes:
        model: ``instance``.
        input_scale: multiplies the stored inputs; 1/255 for bytes and 1 for others by default.
    """

    model: Literal["instance"] = "instance"
    input_scale: Annotated[float, Above(0)] | None = None


Noise: TypeAlias = NoNoise | PlainNoise | AsymmetricNoise | InstanceNoise
