"""NCE+RCE: normalised cross entropy with reverse cross entropy (Ma et al. 2020)."""

from torch import Tensor

from rote.workloads.objectives.objective import Objective
from rote.workloads.objectives.reverse_cross_entropy import reverse_cross_entropy


class NceRce(Objective):
    """α · NCE + β · RCE, with NCE = log p_y / Σ_k log p_k.

    Args:
        alpha: weight of the active part.
        beta: weight of the passive part.
    """

    is_robust = True

    def __init__(self, alpha: float, beta: float) -> None:
        self._alpha = alpha
        self._beta = beta

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss."""
        log_probabilities = logits.log_softmax(1)
        of_label = log_probabilities.gather(1, labels[:, None]).squeeze(1)
        active = (of_label / log_probabilities.sum(1)).mean()
        return self._alpha * active + self._beta * reverse_cross_entropy(log_probabilities, labels)
