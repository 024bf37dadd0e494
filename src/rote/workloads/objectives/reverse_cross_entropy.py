"""Reverse cross entropy, the passive part of the robust losses."""

import math

from torch import Tensor

A = math.log(1e-4)
"""−9.2103: the natural logarithm of the zeros of a one-hot label. Papers say −4, code has this."""

_SMALLEST = 1e-7


def reverse_cross_entropy(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """−Σ_k p_k log q_k with q the one-hot label clamped to [1e-4, 1], p clamped to [1e-7, 1].

    That is −A · Σ_{k≠y} p_k = 9.2103 · (1 − p_y).

    Args:
        log_probabilities: (samples, classes).
        labels: (samples,).

    Returns:
        The mean.
    """
    probabilities = log_probabilities.exp().clamp(_SMALLEST, 1.0)
    of_label = probabilities.gather(1, labels[:, None]).squeeze(1)
    return -A * (probabilities.sum(1) - of_label).mean()
