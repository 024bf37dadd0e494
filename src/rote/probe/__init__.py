"""Measuring without a trace: forward, backward, one throw-away step, forward."""

from rote.probe.admission import check_model_and_optimizer
from rote.probe.inputs import Inputs, content_hash, frozen, num_samples, take
from rote.probe.measurement import Measurement, Probe, unwrapped
from rote.probe.outputs import LossFunction, cross_entropy
from rote.probe.policy import PlainStep, ProbePolicy, StepRule

__all__ = [
    "Inputs",
    "LossFunction",
    "Measurement",
    "PlainStep",
    "Probe",
    "ProbePolicy",
    "StepRule",
    "check_model_and_optimizer",
    "content_hash",
    "cross_entropy",
    "frozen",
    "num_samples",
    "take",
    "unwrapped",
]
