"""Remembering measurements: the running mean that is ζ, when to probe, the tracker."""

from rote.tracking.examination import Examination, examine
from rote.tracking.running_mean import RunningMean
from rote.tracking.start import track
from rote.tracking.tracker import Tracker

__all__ = ["Examination", "RunningMean", "Tracker", "examine", "track"]
