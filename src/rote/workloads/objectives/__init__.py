"""What is minimized: cross entropy, robust losses, Mixup, robust early learning."""

from rote.workloads.objectives.active_passive import NceRce, NflRce, suggested_weights
from rote.workloads.objectives.cdr import Cdr
from rote.workloads.objectives.choice import make_objective
from rote.workloads.objectives.mixup import Mixup
from rote.workloads.objectives.objective import CrossEntropy, Objective

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
