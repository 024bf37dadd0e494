"""Gradient disparity: the distance between the gradients of different batches.

Forouzesh and Thiran, "Disparity Between Batches as a Signal for Early Stopping", ECML-PKDD 2021.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from rote.arguments import check_integer
from rote.errors import InputError
from rote.probe import Inputs, call, capture_logits, unwrap
from rote.records import Column
from rote.snapshot import preserved
from rote.tracking import Batch, Signal, SignalContext


class GradientDisparity(Signal):
    """The mean distance ‖g_a − g_b‖ of the gradients of s batches, all at the same weights.

    g is the gradient of mean(l / std(l)), l the losses of the samples of a batch. The batches are
    the first s since the last reading, in train mode as in the authors' script; buffers and random
    numbers are restored. It costs s forward and backward passes per reading.

    Args:
        s: the number of batches.

    Raises:
        InputError: if s is less than 2.
    """

    name = "gradient_disparity"
    draws = False
    columns = (
        Column(
            "gradient_disparity",
            "distance of the gradients of batches",
            "signal",
            better="lower",
            rule="min:gradient_disparity",
        ),
    )

    def __init__(self, s: int = 5) -> None:
        self._s = check_integer("s", s, least=2)
        self._batches: list[tuple[Inputs, Tensor]] = []

    def start(self, context: SignalContext) -> None:
        """Keep the context, with network and objective."""
        self._context = context

    def observe(self, batch: Batch) -> None:
        """Keep the first batches.

        Raises:
            InputError: if the loop does not say what their samples are.
        """
        if batch.inputs is None:
            raise InputError(
                "Signal `gradient_disparity` runs the network on training batches. Pass `inputs` "
                "to tracker.observe."
            )
        if len(self._batches) < self._s:
            batch.check_rows(self.name)
            self._batches.append((batch.inputs, batch.labels))

    def read(self, epoch: int) -> Mapping[str, float]:
        """Return the mean distance, once there are two batches."""
        model = unwrap(self._context.model)
        batches, self._batches = self._batches, []
        with preserved(model):
            model.train()
            gradients = []
            for number, (inputs, labels) in enumerate(batches):
                torch.manual_seed(self._s * epoch + number)  # the same masks after a resume
                gradients.append(self._gradient(call(model, inputs), labels))
        return compute_disparity(gradients)

    def _gradient(self, output: object, labels: Tensor) -> Tensor:
        logits = capture_logits(self._context.loss_fn, output)
        rows, classes = Batch(labels, logits).rows(self.name)
        losses = cross_entropy(rows.float(), classes, reduction="none")
        parameters = [p for p in unwrap(self._context.model).parameters() if p.requires_grad]
        found = torch.autograd.grad((losses / losses.std()).mean(), parameters, allow_unused=True)
        parts = zip(found, parameters, strict=True)
        return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in parts])

    def state_dict(self) -> dict[str, Any]:
        """Return the batches since the last reading."""
        return {"batches": [list(batch) for batch in self._batches]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._batches = [(inputs, labels) for inputs, labels in state["batches"]]


def compute_disparity(gradients: list[Tensor]) -> dict[str, float]:
    """Return the mean distance over pairs; nothing without a pair, or if it is not finite."""
    distances = [float((a - b).norm()) for a, b in combinations(gradients, 2)]
    mean = sum(distances) / len(distances) if distances else float("nan")
    return {"gradient_disparity": mean} if abs(mean) < float("inf") else {}


SIGNAL = GradientDisparity
