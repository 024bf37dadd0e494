"""Remembering measurements: the running mean that is ζ, when to probe, the tracker."""

from rote.tracking.examination import Examination, examine
from rote.tracking.make_tracker import track
from rote.tracking.probe_checkpoints import Aftermath, in_order, probe_checkpoints
from rote.tracking.running_mean import RunningMean
from rote.tracking.signal import Batch, Signal, SignalContext, find_signal, signal_names
from rote.tracking.stop_rule import StopRule
from rote.tracking.tracker import Tracker

__all__ = [
    "Aftermath",
    "Batch",
    "Examination",
    "RunningMean",
    "Signal",
    "SignalContext",
    "StopRule",
    "Tracker",
    "examine",
    "find_signal",
    "in_order",
    "probe_checkpoints",
    "signal_names",
    "track",
]
