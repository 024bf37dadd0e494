"""The embedded set: 1,797 handwritten digits of 8×8 pixels that come with scikit-learn."""

import numpy as np

from rote.workloads.data.dataset import Dataset

_EVERY = 5


def load_digits() -> Dataset:
    """Load the digits, every fifth of each class for testing.

    Returns:
        1,442 training and 355 test images, pixels from 0 to 16.
    """
    from sklearn import datasets

    bunch = datasets.load_digits()
    images = bunch.images.astype(np.uint8)[..., None]
    labels = bunch.target.astype(np.int64)
    place = np.empty(len(labels), dtype=np.int64)
    for digit in range(10):
        members = labels == digit
        place[members] = np.arange(members.sum())
    is_test = place % _EVERY == _EVERY - 1
    y_train = labels[~is_test]
    return Dataset(
        name="digits",
        source="scikit-learn",
        inputs="images",
        x_train=images[~is_test],
        y_train=y_train,
        truth=y_train,
        x_test=images[is_test],
        y_test=labels[is_test],
        num_classes=10,
    )
