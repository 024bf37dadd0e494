import numpy as np
from sklearn.datasets import load_digits as original

from rote.workloads.data.digits import load_digits


def test_every_digit_is_used_once_and_every_fifth_of_a_class_for_testing() -> None:
    found = load_digits()
    assert found.x_test is not None
    assert found.y_test is not None
    assert (found.x_train.shape, found.x_test.shape) == ((1442, 8, 8, 1), (355, 8, 8, 1))
    everything = np.concatenate([found.x_train, found.x_test]).reshape(-1, 64)
    assert sorted(map(bytes, everything)) == sorted(map(bytes, original().data.astype(np.uint8)))
    for digit in range(10):
        tested, total = (found.y_test == digit).sum(), (original().target == digit).sum()
        assert tested == total // 5


def test_the_labels_are_the_truth() -> None:
    found = load_digits()
    assert found.truth is found.y_train
    assert (found.num_classes, found.inputs) == (10, "images")
