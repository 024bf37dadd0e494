"""Mixup: cross entropy on weighted pairs of samples."""

import torch
from torch import Tensor, nn

from rote.workloads.objectives.objective import CrossEntropy
from rote.workloads.randomness import numpy_generator, torch_generator


class Mixup(CrossEntropy):
    """λ · CE(f(x'), y) + (1 − λ) · CE(f(x'), y[perm]), x' = λx + (1 − λ)x[perm], λ ~ Beta(α, α).

    One λ and one permutation per batch, drawn from the run's seed. The probe's loss is cross
    entropy on unmixed samples.
    """

    def __init__(self, alpha: float, *, seed: int) -> None:
        self._alpha = alpha
        self._seed = seed

    def start_epoch(self, epoch: int) -> None:
        """New generators for the epoch."""
        self._shares = numpy_generator(self._seed, "mixup-share", epoch)
        self._pairs = torch_generator(self._seed, "mixup-pairs", epoch)

    def training_loss(
        self, model: nn.Module, inputs: Tensor, labels: Tensor
    ) -> tuple[Tensor, None]:
        """The loss on a batch that is mixed with itself; there are no logits of single samples."""
        share = float(self._shares.beta(self._alpha, self._alpha))
        partner = torch.randperm(len(inputs), generator=self._pairs).to(inputs.device)
        # Indexing an image batch would lose its channels-last layout; lerp keeps the first's.
        mixed = torch.lerp(inputs, inputs[partner], 1 - share)
        logits = model(mixed)
        own, other = self.loss(logits, labels), self.loss(logits, labels[partner])
        return share * own + (1 - share) * other, None
