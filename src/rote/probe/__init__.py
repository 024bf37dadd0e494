"""Measuring without a trace: forward, backward, one throw-away step, forward."""

from rote.probe.admission import check_model_and_optimizer
from rote.probe.calibration import (
    expected_calibration_error,
    fit_temperature,
    temperature_for_error,
)
from rote.probe.inputs import Inputs, content_hash, frozen, num_samples, take
from rote.probe.measurement import Measurement, Probe, unwrapped
from rote.probe.outputs import LossFunction, cross_entropy
from rote.probe.policy import PlainStep, ProbePolicy, StepRule
from rote.probe.resistance import Resistance, resistance

__all__ = [
    "Inputs",
    "LossFunction",
    "Measurement",
    "PlainStep",
    "Probe",
    "ProbePolicy",
    "Resistance",
    "StepRule",
    "check_model_and_optimizer",
    "content_hash",
    "cross_entropy",
    "expected_calibration_error",
    "fit_temperature",
    "frozen",
    "num_samples",
    "resistance",
    "take",
    "temperature_for_error",
    "unwrapped",
]
