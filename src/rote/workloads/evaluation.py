"""Accuracy in eval mode: on everything, on clean labels, on wrong ones, on the test set."""

import torch
from torch import Tensor, nn

from rote.workloads.data.samples import Samples

AT_ONCE = 256
"""Samples per forward pass."""


def predict(model: nn.Module, samples: Samples) -> Tensor:
    """The predicted class of every sample; the model is put back into the mode it was in."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            chunks = [
                model(samples.batch(slice(start, start + AT_ONCE))).argmax(1)
                for start in range(0, len(samples), AT_ONCE)
            ]
    finally:
        model.train(was_training)
    return torch.cat(chunks)


def training_accuracies(
    predicted: Tensor, labels: Tensor, wrong: Tensor | None
) -> dict[str, float]:
    """Shares of given labels that are predicted.

    Args:
        predicted: one class per training sample.
        labels: the given labels.
        wrong: which of them are wrong, if known.

    Returns:
        ``train_accuracy`` and, where known and not of nothing, ``clean_accuracy`` (on right
        labels) and ``noisy_accuracy`` (on wrong ones: what was memorized).
    """
    hits = predicted == labels
    found = {"train_accuracy": share(hits)}
    if wrong is not None:
        for name, subset in (("clean_accuracy", hits[~wrong]), ("noisy_accuracy", hits[wrong])):
            if len(subset):
                found[name] = share(subset)
    return found


def share(hits: Tensor) -> float:
    """The share of true entries, the same on every device."""
    return int(hits.sum()) / len(hits)
