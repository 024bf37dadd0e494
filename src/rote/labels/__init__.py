"""Which label an input gets: random labels for the probe, label noise for training."""

from rote.labels.random_labels import (
    IGNORE_INDEX,
    LabelSampler,
    Marginal,
    MultiLabel,
    NeverGiven,
    PerToken,
    Uniform,
)

__all__ = [
    "IGNORE_INDEX",
    "LabelSampler",
    "Marginal",
    "MultiLabel",
    "NeverGiven",
    "PerToken",
    "Uniform",
]
