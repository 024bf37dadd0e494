"""Cross entropy: −log p_y."""

from torch import Tensor
from torch.nn import functional

from rote.workloads.objectives.objective import Objective


class CrossEntropy(Objective):
    """The mean of −log p_y."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss."""
        return functional.cross_entropy(logits, labels)
