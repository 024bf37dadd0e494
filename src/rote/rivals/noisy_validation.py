"""Noisy validation with few labels: the accuracy on the first n given labels of the pool.

The baseline of Forouzesh, Sedghi and Thiran (ICLR 2023); Chen et al. (AAAI 2021).
"""

import warnings
from collections.abc import Mapping, Sequence

from rote.arguments import check_integer
from rote.errors import InputError, SmallPoolWarning
from rote.labels import IGNORE_INDEX
from rote.records import Column
from rote.tracking import Signal, SignalContext, validation_accuracy

SIZES = (10, 128, 256, 512, 1024, 2048)


class NestedValidation(Signal):
    """The share of the pool's first n given labels that is predicted, for several n.

    Args:
        sizes: n; those that are larger than the pool are left out, with a ``SmallPoolWarning``.

    Raises:
        InputError: if a size is not positive.
    """

    name = "noisy_validation"

    def __init__(self, sizes: Sequence[int] = SIZES) -> None:
        self._sizes = tuple(check_integer("sizes", size, least=1) for size in sizes)

    def start(self, context: SignalContext) -> None:
        """See how large the pool is.

        Raises:
            InputError: if the pool has no given labels.
        """
        given = context.given_labels
        if given is None:
            raise InputError(
                "Expected a pool with given labels for signal `noisy_validation`, got none. Pass "
                '`given_labels=` (in a spec: `pool = "auto"`), or leave the signal out.'
            )
        left_out = [size for size in self._sizes if size > len(given)]
        if left_out:
            message = (
                f"Left out noisy_validation_{', _'.join(map(str, left_out))}: the pool has "
                f"{len(given)} samples. A larger pool (in a spec: `probe.pool_size`) has more."
            )
            warnings.warn(SmallPoolWarning(message), stacklevel=2)
        self._sizes = tuple(
            size
            for size in self._sizes
            if size <= len(given) and (given[:size] != IGNORE_INDEX).any()
        )
        self.columns = tuple(_column(size) for size in self._sizes)
        self._context = context

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """The accuracies of what the probe predicted."""
        given, predicted = self._context.given_labels, self._context.predictions
        assert given is not None
        assert predicted is not None
        return {
            _column(size).name: validation_accuracy(predicted[:size], given[:size])
            for size in self._sizes
        }


def _column(size: int) -> Column:
    name = f"noisy_validation_{size}"
    label = f"accuracy on {size} given labels of the pool"
    return Column(name, label, "accuracy", "share", "higher", f"max:{name}")


SIGNAL = NestedValidation
