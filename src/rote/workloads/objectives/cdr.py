"""CDR, robust early learning: only critical weights follow the gradient (Xia et al. 2021)."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from rote.workloads.objectives.objective import CrossEntropy

_RANKED_AXES = (2, 4)
"""Weights of linear layers and convolutions; biases and norms keep their gradients."""


class Cdr(CrossEntropy):
    """Rank all weights by |∂L/∂w · w|; scale the gradients of the first share r, drop the rest.

    critical: r · ∂L/∂w + λ sgn(w); non-critical: λ sgn(w). The optimizer adds its own momentum and
    weight decay, so that non-critical weights still move by these, as in the authors' code.

    Args:
        noise_rate: τ.
        schedule: ``"constant"``: r = 1 − τ. ``"gradual"``: r falls in equal steps from 1 in the
            first epoch to 1 − τ in epoch ``gradual_epochs``, and stays there.
        gradual_epochs: how long r falls.
        l1: λ.
    """

    def __init__(
        self,
        noise_rate: float,
        *,
        schedule: Literal["gradual", "constant"],
        gradual_epochs: int,
        l1: float,
    ) -> None:
        self._noise_rate = noise_rate
        self._steps = gradual_epochs if schedule == "gradual" else 1
        self._l1 = l1
        self.start_epoch(1)

    @property
    def share(self) -> float:
        """r, the share of critical weights, and the factor of their gradients."""
        return self._share

    def start_epoch(self, epoch: int) -> None:
        """Set the share for the epoch."""
        progress = 1.0 if self._steps == 1 else min(1.0, (epoch - 1) / (self._steps - 1))
        self._share = 1 - self._noise_rate * progress

    @torch.no_grad()
    def shape_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Keep the gradients of critical weights, and add the decay."""
        ranked = [p for p in parameters if p.grad is not None and p.dim() in _RANKED_AXES]
        if not ranked:
            return
        importance = [(p.grad * p).abs_() for p in ranked if p.grad is not None]
        everything = torch.cat([entries.flatten() for entries in importance])
        kept = max(1, int(self._share * len(everything)))
        threshold = everything.kthvalue(len(everything) - kept + 1).values
        for parameter, entries in zip(ranked, importance, strict=True):
            assert parameter.grad is not None
            parameter.grad.mul_((entries >= threshold) * self._share)
            if self._l1 > 0:
                parameter.grad.add_(parameter.sign(), alpha=self._l1)
