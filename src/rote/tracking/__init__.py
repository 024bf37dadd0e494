"""Tracking a run: the tracker, signals, the running mean ζ, and the stop rule."""

from rote.extras import list_signals as list_signals
from rote.tracking.device_check import check_device as check_device, find_device as find_device
from rote.tracking.examination import examine as examine
from rote.tracking.make_tracker import track
from rote.tracking.past_checkpoints import (
    Aftermath as Aftermath,
    explain_refused as explain_refused,
    look_into as look_into,
    probe_checkpoints,
    sort_checkpoints,
)
from rote.tracking.signals import (
    Batch,
    Signal,
    SignalContext,
    TrainingSet as TrainingSet,
    WaitingBatches as WaitingBatches,
    compute_validation_accuracy as compute_validation_accuracy,
)
from rote.tracking.stop_rule import StopRule
from rote.tracking.susceptibility import RunningMean as RunningMean
from rote.tracking.tracker import Tracker

__all__ = [
    "Batch",
    "Signal",
    "SignalContext",
    "StopRule",
    "Tracker",
    "probe_checkpoints",
    "sort_checkpoints",
    "track",
]
