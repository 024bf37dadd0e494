"""RATT's bound: what the fit of random labels that are trained on says about the error.

Garg, Balakrishnan, Kolter and Lipton, "RATT: Leveraging Unlabeled Data to Guarantee
Generalization", ICML 2021.
"""

from collections.abc import Mapping

from rote.errors import InputError
from rote.records import Column
from rote.tracking import Signal, SignalContext

_UNIFORM = ("symmetric-inclusive", "symmetric-exclusive")


class Ratt(Signal):
    """err(S) + (k − 1) (1 − k/(k − 1) err(S̃)): the bound on the error of a clean sample.

    S are training samples with right labels, S̃ such with labels drawn uniformly over all k classes.
    The term in 1/√|S̃|, the same for every checkpoint, is left out. Symmetric noise is such an S̃: of
    its labels, one in k is right by chance and cannot be told from S, so err(S̃) is put together
    from the errors on wrong and right labels, (k − 1)/k and 1/k of it. Measured in eval mode, from
    the predictions that the run makes anyway.
    """

    name = "ratt"
    columns = (
        Column("ratt", "RATT's bound on the error", "truth", better="lower", rule="min:ratt"),
    )

    def start(self, context: SignalContext) -> None:
        """See which labels are random.

        Raises:
            InputError: if that is unknown, or they are not uniform.
        """
        known = context.training_set
        if known is None or known.wrong is None or known.noise not in _UNIFORM:
            got = None if known is None else known.noise
            raise InputError(
                "Signal `ratt` needs a run of a spec with uniformly random wrong labels "
                f"({' or '.join(_UNIFORM)}), and this one has noise {got!r}. Leave the signal out."
            )
        self._context = context

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the bound; nothing where no label is wrong, or none is right."""
        known, predicted = self._context.training_set, self._context.train_predictions
        assert known is not None
        assert known.wrong is not None
        assert predicted is not None
        misses = (predicted != known.labels).double()
        if not bool(known.wrong.any()) or bool(known.wrong.all()):
            return {}
        right, wrong = float(misses[~known.wrong].mean()), float(misses[known.wrong].mean())
        k = self._context.num_classes
        return {"ratt": compute_bound(right, (k - 1) / k * wrong + right / k, k)}


def compute_bound(clean_error: float, random_error: float, num_classes: int) -> float:
    """Return the bound without its term in the number of samples.

    Args:
        clean_error: the share of wrong predictions on S.
        random_error: on S̃.
        num_classes: k.

    Example:
        >>> compute_bound(0.1, 0.5, 2)  # random labels are not fitted at all
        0.1
    """
    k = num_classes
    return clean_error + (k - 1) * (1 - k / (k - 1) * random_error)


SIGNAL = Ratt
