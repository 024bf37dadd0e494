"""What is minimised: cross entropy, robust losses, Mixup, robust early learning."""

from rote.workloads.objectives.cdr import Cdr
from rote.workloads.objectives.choice import make_objective, suggested_weights
from rote.workloads.objectives.cross_entropy import CrossEntropy
from rote.workloads.objectives.mixup import Mixup
from rote.workloads.objectives.nce_rce import NceRce
from rote.workloads.objectives.nfl_rce import NflRce
from rote.workloads.objectives.objective import Objective

__all__ = [
    "Cdr",
    "CrossEntropy",
    "Mixup",
    "NceRce",
    "NflRce",
    "Objective",
    "make_objective",
    "suggested_weights",
]
