"""A simulated detector of label errors that is right about X % of the training samples.

As Forouzesh, Sedghi and Thiran (ICLR 2023) compare with detectors; it needs the truth.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rote.arguments import check_integer
from rote.errors import InputError
from rote.records import Column
from rote.tracking import Signal, SignalContext

ACCURACIES = (80, 90, 96)


class LabelErrorDetector(Signal):
    """The training accuracy on the samples whose label it calls right, and on the others.

    ``detector_X`` is the first minus the second, one number to select by; the paper looks for
    checkpoints where the first is high and the second is low. A detector of higher accuracy errs on
    a part of the samples on which one of lower accuracy errs.

    Args:
        accuracies: X, in percent.
        seed: of the choice of the samples on which it errs.

    Raises:
        InputError: if X is not from 1 to 100.
    """

    name = "label_error_detector"

    def __init__(self, accuracies: Sequence[int] = ACCURACIES, seed: int = 0) -> None:
        self._accuracies = [
            check_integer("accuracies", accuracy, least=1, most=100) for accuracy in accuracies
        ]
        self._seed = check_integer("seed", seed)
        self.columns = tuple(
            column for accuracy in self._accuracies for column in _make_columns(accuracy)
        )

    def start(self, context: SignalContext) -> None:
        """Judge every label.

        Raises:
            InputError: if it is not known which labels are wrong.
        """
        known = context.training_set
        if known is None or known.wrong is None:
            raise InputError(
                "Signal `label_error_detector` needs a run of a spec that knows which labels are "
                "wrong. Leave the signal out."
            )
        self._context, self._labels = context, known.labels
        self._called_wrong = {
            accuracy: detect(known.wrong, accuracy, self._seed) for accuracy in self._accuracies
        }

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the accuracies on both kinds, where there are both."""
        assert self._context.train_predictions is not None
        hits = (self._context.train_predictions == self._labels).double()
        found: dict[str, float] = {}
        for accuracy, wrong in self._called_wrong.items():
            if bool(wrong.any()) and not bool(wrong.all()):
                clean, noisy = float(hits[~wrong].mean()), float(hits[wrong].mean())
                name = f"detector_{accuracy}"
                found |= {name: clean - noisy, f"{name}_clean": clean, f"{name}_noisy": noisy}
        return found


def detect(wrong: Tensor, accuracy: int, seed: int) -> Tensor:
    """Return which labels are called wrong by a detector that errs on random samples."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(len(wrong), generator=generator).to(wrong.device)
    return wrong ^ (draws >= accuracy / 100)


def _make_columns(accuracy: int) -> tuple[Column, ...]:
    name, whose = f"detector_{accuracy}", f"by a detector of {accuracy} %"
    return (
        Column(
            name,
            f"accuracy on labels called right minus wrong {whose}",
            "truth",
            better="higher",
            rule=f"max:{name}",
        ),
        Column(f"{name}_clean", f"accuracy on labels called right {whose}", "truth", "share"),
        Column(f"{name}_noisy", f"accuracy on labels called wrong {whose}", "truth", "share"),
    )


SIGNAL = LabelErrorDetector
