"""Which label an input gets: random labels, label noise, the votes of its neighbours."""

from rote.labels.neighbours import neighbour_votes
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
    "neighbour_votes",
]
