"""Remembering measurements: the running mean that is ζ, when to probe, the tracker."""

from rote.tracking.checkpoint_folder import look_into
from rote.tracking.examination import Examination, examine
from rote.tracking.make_tracker import track
from rote.tracking.noisy_validation import validation_accuracy
from rote.tracking.past_checkpoints import Aftermath, in_order, probe_checkpoints
from rote.tracking.running_mean import RunningMean
from rote.tracking.saved_weights import found_instead
from rote.tracking.signal import (
    Signal,
    SignalContext,
    TrainingSet,
    find_signal,
    name_and_options,
    signal_names,
)
from rote.tracking.signal_batch import Batch, WaitingBatches
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
    "TrainingSet",
    "WaitingBatches",
    "examine",
    "find_signal",
    "found_instead",
    "in_order",
    "look_into",
    "name_and_options",
    "probe_checkpoints",
    "signal_names",
    "track",
    "validation_accuracy",
]
