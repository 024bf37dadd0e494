"""The norm of the weights, whose peak has been proposed as a stop signal."""

import math
from collections.abc import Mapping

import torch

from rote.probe import unwrap
from rote.records import Column
from rote.tracking import Signal, SignalContext


class WeightNorm(Signal):
    """The Euclidean norm of all trainable parameters, taken together."""

    name = "weight_norm"
    draws = False
    columns = (
        Column(
            "weight_norm", "norm of the weights", "signal", better="higher", rule="max:weight_norm"
        ),
    )

    def start(self, context: SignalContext) -> None:
        """Remember whose weights."""
        self._model = unwrap(context.model)

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the norm; nothing where it is not finite."""
        trained = [p.detach() for p in self._model.parameters() if p.requires_grad]
        if not trained:
            return {}
        norm = math.hypot(*(float(torch.linalg.vector_norm(p.float())) for p in trained))
        return {"weight_norm": norm} if math.isfinite(norm) else {}


SIGNAL = WeightNorm
