"""Texts, or token ids, as rows of word counts."""

import numpy as np

from rote.errors import InputError
from rote.workloads.data.dataset import Array


def count_words(train: Array, test: Array | None, vocabulary: int) -> tuple[Array, Array | None]:
    """Weigh the words of each text by how often they occur in it and how rare they are.

    log(1 + count) · inverse document frequency, rows of length 1 (scikit-learn's tf-idf with
    logarithmic counts); words and weights are those of the training set.

    Args:
        train: texts, or token ids (samples, length) with −1 for padding.
        test: further ones.
        vocabulary: how many words are counted, the most frequent ones.

    Returns:
        Dense float32 rows for both.

    Raises:
        InputError: if these are neither texts nor ids, or there is no word in them.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    is_text = train.dtype.kind == "U" and train.ndim == 1
    if not is_text and (train.dtype.kind not in "iu" or train.ndim != 2):
        raise InputError(
            "Expected words to be texts, or integer token ids (samples, length), got "
            f"{train.dtype} of shape {train.shape}."
        )
    counter = TfidfVectorizer(
        max_features=vocabulary,
        sublinear_tf=True,
        dtype=np.float32,
        **({} if is_text else {"analyzer": _ids}),
    )
    try:
        rows = counter.fit_transform(train)
    except ValueError as error:
        raise InputError(f"Expected words in the texts, got none: {error}") from error
    return rows.toarray(), None if test is None else counter.transform(test).toarray()


def _ids(row: Array) -> list[int]:
    """The token ids of one sample, without padding."""
    kept: list[int] = row[row >= 0].tolist()
    return kept
