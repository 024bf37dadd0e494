"""NFL+RCE: normalised focal loss with reverse cross entropy (Ma et al. 2020)."""

from torch import Tensor

from rote.workloads.objectives.objective import Objective
from rote.workloads.objectives.reverse_cross_entropy import reverse_cross_entropy

GAMMA = 0.5


class NflRce(Objective):
    """α · NFL + β · RCE.

    NFL = (1 − p_y)^γ log p_y / Σ_k (1 − p_k)^γ log p_k with γ = 0.5, where, as in the authors'
    code, no gradient flows through the factors (1 − p)^γ.

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
        factors = (1 - log_probabilities.detach().exp()).clamp_min(0.0).pow(GAMMA)
        focal = factors * log_probabilities
        active = (focal.gather(1, labels[:, None]).squeeze(1) / focal.sum(1)).mean()
        return self._alpha * active + self._beta * reverse_cross_entropy(log_probabilities, labels)
