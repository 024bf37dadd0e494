"""Which label an input gets: random labels, label noise, the votes of its neighbors."""

from rote.labels.neighbors import neighbor_votes
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
    "neighbor_votes",
]
