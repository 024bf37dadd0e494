"""Noisy validation with few labels: the accuracy on the first n given labels of the holdout.

The baseline of Forouzesh, Sedghi and Thiran (ICLR 2023); Chen et al. (AAAI 2021).
"""

import warnings
from collections.abc import Mapping, Sequence

from rote.arguments import check_integer
from rote.errors import InputError, SmallHoldoutWarning
from rote.labels import IGNORE_INDEX
from rote.records import Column
from rote.tracking import Signal, SignalContext, compute_validation_accuracy

SIZES = (10, 128, 256, 512, 1024, 2048)


class NestedValidation(Signal):
    """The share of the holdout's first n given labels that is predicted, for several n.

    Args:
        sizes: n; sizes larger than the holdout are left out with a ``SmallHoldoutWarning``.

    Raises:
        InputError: if a size is not positive.
    """

    name = "noisy_validation"

    def __init__(self, sizes: Sequence[int] = SIZES) -> None:
        self._sizes = tuple(check_integer("sizes", size, least=1) for size in sizes)

    def start(self, context: SignalContext) -> None:
        """See how large the holdout is.

        Raises:
            InputError: if the holdout has no given labels.
        """
        given = context.given_labels
        if given is None:
            raise InputError(
                "Signal `noisy_validation` needs a holdout with given labels. Pass "
                '`given_labels=` (in a spec: `holdout = "auto"`), or leave the signal out.'
            )
        left_out = [size for size in self._sizes if size > len(given)]
        if left_out:
            message = (
                f"Left out noisy_validation_{', _'.join(map(str, left_out))}: the holdout has "
                f"{len(given)} samples. Use a larger holdout (`probe.holdout_size`)."
            )
            warnings.warn(SmallHoldoutWarning(message), stacklevel=2)
        self._sizes = tuple(
            size
            for size in self._sizes
            if size <= len(given) and (given[:size] != IGNORE_INDEX).any()
        )
        self.columns = tuple(_make_column(size) for size in self._sizes)
        self._context = context

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the accuracies of the probe's predictions."""
        given, predicted = self._context.given_labels, self._context.predictions
        assert given is not None
        assert predicted is not None
        return {
            _make_column(size).name: compute_validation_accuracy(predicted[:size], given[:size])
            for size in self._sizes
        }


def _make_column(size: int) -> Column:
    name = f"noisy_validation_{size}"
    label = f"accuracy on {size} given labels of the holdout"
    return Column(name, label, "accuracy", "share", "higher", f"max:{name}")


SIGNAL = NestedValidation
