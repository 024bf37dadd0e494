"""Active-passive losses (Ma et al. 2020): NCE+RCE and NFL+RCE."""

import math
from abc import abstractmethod

from torch import Tensor

from rote.workloads.objectives.objective import Objective

GAMMA = 0.5
A = math.log(1e-4)
"""−9.2103: the natural logarithm of the zeros of a one-hot label. Papers say −4, code has this."""

_SMALLEST = 1e-7
_FEW_CLASSES = 10


def suggested_weights(num_classes: int) -> tuple[float, float]:
    """α and β that the authors use for so many classes.

    Example:
        >>> suggested_weights(10), suggested_weights(100)
        ((1.0, 1.0), (10.0, 0.1))
    """
    return (1.0, 1.0) if num_classes <= _FEW_CLASSES else (10.0, 0.1)


def reverse_cross_entropy(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """−Σ_k p_k log q_k with q the one-hot label clamped to [1e-4, 1], p clamped to [1e-7, 1].

    That is −A · Σ_{k≠y} p_k = 9.2103 · (1 − p_y), averaged over the samples.
    """
    probabilities = log_probabilities.exp().clamp(_SMALLEST, 1.0)
    of_label = probabilities.gather(1, labels[:, None]).squeeze(1)
    return -A * (probabilities.sum(1) - of_label).mean()


class _ActivePassive(Objective):
    """α · a(y) / Σ_k a(k) + β · RCE, where the active terms a make the difference."""

    is_robust = True

    def __init__(self, alpha: float, beta: float) -> None:
        self._alpha = alpha
        self._beta = beta

    @abstractmethod
    def _active_terms(self, log_probabilities: Tensor) -> Tensor:
        """a(k) of every sample and class."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss."""
        log_probabilities = logits.log_softmax(1)
        terms = self._active_terms(log_probabilities)
        active = (terms.gather(1, labels[:, None]).squeeze(1) / terms.sum(1)).mean()
        return self._alpha * active + self._beta * reverse_cross_entropy(log_probabilities, labels)


class NceRce(_ActivePassive):
    """α · NCE + β · RCE, with NCE = log p_y / Σ_k log p_k."""

    def _active_terms(self, log_probabilities: Tensor) -> Tensor:
        return log_probabilities


class NflRce(_ActivePassive):
    """α · NFL + β · RCE.

    NFL = (1 − p_y)^γ log p_y / Σ_k (1 − p_k)^γ log p_k with γ = 0.5, where, as in the authors'
    code, no gradient flows through the factors (1 − p)^γ.
    """

    def _active_terms(self, log_probabilities: Tensor) -> Tensor:
        factors = (1 - log_probabilities.detach().exp()).clamp_min(0.0).pow(GAMMA)
        return factors * log_probabilities
