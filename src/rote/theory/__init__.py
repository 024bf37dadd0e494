"""Why good models resist memorization, computed: Sections 2 and 5 of the paper."""

from rote.records import BoundsRow, BoundsTable
from rote.theory.binary_labels import BinaryLabels, binary_labels, random_labels, redraw_labels
from rote.theory.bounds import Bounds, alignment, bounds, bounds_table, monte_carlo_bounds
from rote.theory.check import CheckRecord, WidthSummary, check, gap_exponent, summarize
from rote.theory.dynamics import distance, objective, steps_to_memorize
from rote.theory.gram import empirical_gram, relu_gram, relu_kernel
from rote.theory.simulator import Simulation, TwoLayerNetwork, simulate
from rote.theory.spectrum import Spectrum, nystrom_spectrum, spectrum

__all__ = [
    "BinaryLabels",
    "Bounds",
    "BoundsRow",
    "BoundsTable",
    "CheckRecord",
    "Simulation",
    "Spectrum",
    "TwoLayerNetwork",
    "WidthSummary",
    "alignment",
    "binary_labels",
    "bounds",
    "bounds_table",
    "check",
    "distance",
    "empirical_gram",
    "gap_exponent",
    "monte_carlo_bounds",
    "nystrom_spectrum",
    "objective",
    "random_labels",
    "redraw_labels",
    "relu_gram",
    "relu_kernel",
    "simulate",
    "spectrum",
    "steps_to_memorize",
    "summarize",
]
