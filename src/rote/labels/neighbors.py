"""Nearest-neighbor votes: which labels the nearest training samples of a sample were given."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rote.arguments import check_integer
from rote.errors import InputError, quote

COMPONENTS = 40
"""Principal components that pixels or features are reduced to."""

TEXT_COMPONENTS = 50
"""Singular directions that weighted word counts are reduced to."""

_ROWS_AT_ONCE = 2048
_ROUNDS = 5  # of subspace iteration, with twice as many directions as are kept
_COMPARED_AT_ONCE = 128


def neighbor_votes(
    train_features: Any,  # noqa: ANN401
    train_labels: Any,  # noqa: ANN401
    holdout_features: Any,  # noqa: ANN401
    k: int = 10,
    num_classes: int | None = None,
) -> np.ndarray:
    """Return the share of each class among the given labels of the nearest training samples.

    No network is needed, and none has a say: the votes are independent of what a run memorizes.
    They let the posterior rule of ``rote.select`` judge one run alone; hand them to
    ``rote.track(..., neighbor_votes=...)``. Training samples at exactly the distance of the k-th
    share its place, so that the order of the samples does not matter; nothing is drawn from a
    global generator.

    Args:
        train_features: pixels, features or embeddings of the training samples, an array or tensor
            (samples, ...) or anything that gives arrays when sliced; wider than 40, they are
            reduced to 40 principal components. Or texts (a list), or their sparse TF-IDF, which
            are reduced to 50 singular directions.
        train_labels: their given labels; a sample with a negative one has no vote.
        holdout_features: the samples to vote on, of the same kind.
        k: the number of neighbors that vote.
        num_classes: the number of classes; by default one more than the largest label.

    Returns:
        float32 (holdout samples, classes); every row sums to 1.

    Raises:
        InputError: if the arguments do not fit one another.

    Example:
        >>> neighbor_votes([[0.0], [0.1], [5.0]], [1, 0, 2], [[0.2]], k=2)
        array([[0.5, 0.5, 0. ]], dtype=float32)
    """
    labels = _as_labels(train_labels)
    k = check_integer("k", k, least=1)
    classes = _count_classes(labels, num_classes)
    train, holdout = _make_comparable(train_features, holdout_features)
    if len(labels) != len(train):
        raise InputError(
            f"Expected `train_labels` to have one label per training sample ({len(train)}), got "
            f"{len(labels)}."
        )
    is_labeled = labels >= 0
    if k > is_labeled.sum():
        raise InputError(
            f"Expected `k` to be at most the number of labeled training samples, "
            f"{is_labeled.sum()}, got {k}."
        )
    return _count_votes(train[is_labeled], labels[is_labeled], holdout, k, classes)


def _count_votes(
    train: np.ndarray, labels: np.ndarray, holdout: np.ndarray, k: int, classes: int
) -> np.ndarray:
    votes = np.zeros((len(holdout), classes))
    norms = (train**2).sum(1)
    for start in range(0, len(holdout), _COMPARED_AT_ONCE):
        block = holdout[start : start + _COMPARED_AT_ONCE]
        distances = norms - 2 * block @ train.T  # squared, less what a row has in common
        limit = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        is_nearer, is_level = distances < limit, distances == limit
        level_share = (k - is_nearer.sum(1)) / is_level.sum(1)
        rows, places = np.nonzero(is_nearer | is_level)
        weights = np.where(is_nearer[rows, places], 1.0, level_share[rows])
        np.add.at(votes, (start + rows, labels[places]), weights / k)
    return votes.astype(np.float32)


def _make_comparable(train: Any, holdout: Any) -> tuple[np.ndarray, np.ndarray]:  # noqa: ANN401
    """Return both sets as rows of a few numbers each, whose distances count."""
    from scipy import sparse

    if _are_texts(train) and _are_texts(holdout):
        train, holdout = _weigh_words(train, holdout)
    if (
        sparse.issparse(train) != sparse.issparse(holdout)
        or _are_texts(train)
        or _are_texts(holdout)
    ):
        raise InputError(
            f"Expected `train_features` and `holdout_features` to be of one kind (arrays, sparse "
            f"matrices or texts), got {type(train).__name__} and {type(holdout).__name__}."
        )
    if sparse.issparse(train):
        _check_widths(train.shape[1], holdout.shape[1])
        return _reduce_words(train, holdout)
    rows = _Rows("train_features", train), _Rows("holdout_features", holdout)
    _check_widths(*(entry.width for entry in rows))
    return _reduce(*rows)


def _check_widths(train: int, holdout: int) -> None:
    if train != holdout:
        raise InputError(
            f"Expected `holdout_features` to have as many numbers per sample as `train_features` "
            f"({train}), got {holdout}."
        )


class _Rows:
    """Samples of any shape as flat rows, read a block at a time.

    Args:
        name: for messages.
        source: an array, a tensor, nested lists, or what can be sliced.
    """

    def __init__(self, name: str, source: Any) -> None:  # noqa: ANN401
        self._name = name
        self._source = np.asarray(source) if isinstance(source, list | tuple) else source
        try:
            self._length = len(self._source)
            self.width = self._read(0, 1).shape[1]
        except (TypeError, IndexError) as error:
            raise self._make_error(type(source).__name__) from error

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield self._read(start, start + _ROWS_AT_ONCE)

    def _read(self, start: int, stop: int) -> np.ndarray:
        part = self._source[start:stop]
        if hasattr(part, "detach"):  # a tensor; torch is not imported to ask
            part = part.detach().cpu()
            part = (part.float() if part.is_floating_point() else part).numpy()
        part = np.asarray(part)
        if part.ndim < 1 or len(part) == 0 or part.dtype.kind not in "biuf":
            raise self._make_error(f"{part.dtype} of shape {(len(self._source), *part.shape[1:])}")
        # What has 8 bytes may need them until the mean is taken off.
        rows = part.reshape(len(part), -1).astype(np.float64 if part.itemsize == 8 else np.float32)
        if not np.isfinite(rows).all():
            raise self._make_error("NaN or infinity")
        return rows

    def _make_error(self, got: str) -> InputError:
        return InputError(
            f"Expected `{self._name}` to be finite numbers of shape (samples, ...), got {got}."
        )


def _reduce(train: _Rows, holdout: _Rows) -> tuple[np.ndarray, np.ndarray]:
    """Project both sets, centered and scaled, on the training set's principal components."""
    mean = sum(rows.sum(0, dtype=np.float64) for rows in train) / len(train)
    unit = max(np.abs(rows - mean).max(initial=0) for rows in train) or 1.0

    def iterate_blocks(of: _Rows) -> Iterator[np.ndarray]:
        for rows in of:
            yield ((rows - mean.astype(rows.dtype)) / unit).astype(np.float32)

    if train.width <= COMPONENTS:
        axes = np.eye(train.width, dtype=np.float32)
    else:
        axes = _compute_principal_axes(lambda: iterate_blocks(train), train.width)
    found = [
        np.concatenate([rows @ axes for rows in iterate_blocks(of)]) for of in (train, holdout)
    ]
    return found[0].astype(np.float64), found[1].astype(np.float64)


def _compute_principal_axes(blocks: Callable[[], Iterator[np.ndarray]], width: int) -> np.ndarray:
    """Compute the first principal components as columns: subspace iteration over blocks of rows."""
    start = np.random.default_rng(0).standard_normal((width, min(width, 2 * COMPONENTS)))
    axes: np.ndarray = np.linalg.qr(start)[0]
    for _ in range(_ROUNDS):
        directions = axes.astype(np.float32)
        product = np.zeros_like(axes)
        for rows in blocks():
            product += rows.T @ (rows @ directions)
        axes = np.linalg.qr(product)[0]
    directions = axes.astype(np.float32)
    inner = np.zeros((axes.shape[1], axes.shape[1]))
    for rows in blocks():
        projected = (rows @ directions).astype(np.float64)
        inner += projected.T @ projected
    best = np.linalg.eigh(inner)[1][:, : -COMPONENTS - 1 : -1]
    found: np.ndarray = (axes @ best).astype(np.float32)
    return found


def _reduce_words(train: Any, holdout: Any) -> tuple[np.ndarray, np.ndarray]:  # noqa: ANN401
    from sklearn.decomposition import TruncatedSVD

    for name, matrix in (("train_features", train), ("holdout_features", holdout)):
        if not np.isfinite(matrix.sum()):
            raise InputError(f"Expected `{name}` to be finite numbers, got NaN or infinity.")
    if train.shape[1] <= TEXT_COMPONENTS:
        return train.toarray().astype(np.float64), holdout.toarray().astype(np.float64)
    directions = TruncatedSVD(TEXT_COMPONENTS, random_state=0).fit(train)
    return directions.transform(train), directions.transform(holdout)


def _are_texts(source: Any) -> bool:  # noqa: ANN401
    if isinstance(source, np.ndarray):
        return bool(source.dtype.kind == "U")
    return isinstance(source, Sequence) and len(source) > 0 and isinstance(source[0], str)


def _weigh_words(train: Sequence[str], holdout: Sequence[str]) -> tuple[Any, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    counter = TfidfVectorizer(sublinear_tf=True)
    try:
        return counter.fit_transform(train), counter.transform(holdout)
    except (ValueError, AttributeError) as error:
        raise InputError(f"The texts contain no words: {error}") from error


def _as_labels(labels: Any) -> np.ndarray:  # noqa: ANN401
    values = np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InputError(
            "Expected `train_labels` to be integers, one class per training sample, got "
            f"{values.dtype} of shape {values.shape}."
        )
    return values.astype(np.int64)


def _count_classes(labels: np.ndarray, num_classes: int | None) -> int:
    largest = int(labels.max(initial=-1))
    if num_classes is None:
        return largest + 1
    classes = check_integer("num_classes", num_classes, least=1)
    if largest >= classes:
        raise InputError(
            f"Expected `train_labels` to be classes from 0 to {classes - 1}, got {quote(largest)}."
        )
    return classes
