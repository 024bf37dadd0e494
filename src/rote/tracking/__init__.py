"""Remembering measurements: the running mean that is ζ, when to probe, the tracker."""

from rote.extras import name_and_options, signal_names
from rote.tracking.device_check import DeviceCheck, check_device, count_blocking_reads
from rote.tracking.examination import Examination, examine
from rote.tracking.make_tracker import track
from rote.tracking.past_checkpoints import (
    Aftermath,
    explain_refused,
    look_into,
    probe_checkpoints,
    sort_checkpoints,
)
from rote.tracking.signals import (
    Batch,
    Signal,
    SignalContext,
    TrainingSet,
    WaitingBatches,
    find_signal,
    validation_accuracy,
)
from rote.tracking.stop_rule import StopRule
from rote.tracking.susceptibility import RunningMean
from rote.tracking.tracker import Tracker

__all__ = [
    "Aftermath",
    "Batch",
    "DeviceCheck",
    "Examination",
    "RunningMean",
    "Signal",
    "SignalContext",
    "StopRule",
    "Tracker",
    "TrainingSet",
    "WaitingBatches",
    "check_device",
    "count_blocking_reads",
    "examine",
    "explain_refused",
    "find_signal",
    "look_into",
    "name_and_options",
    "probe_checkpoints",
    "signal_names",
    "sort_checkpoints",
    "track",
    "validation_accuracy",
]
