"""Remembering measurements: the running mean that is ζ, when to probe, the tracker."""

from rote.tracking.afterwards import Aftermath, in_order, probe_checkpoints
from rote.tracking.examination import Examination, examine
from rote.tracking.running_mean import RunningMean
from rote.tracking.start import track
from rote.tracking.stop_rule import StopRule
from rote.tracking.tracker import Tracker

__all__ = [
    "Aftermath",
    "Examination",
    "RunningMean",
    "StopRule",
    "Tracker",
    "examine",
    "in_order",
    "probe_checkpoints",
    "track",
]
