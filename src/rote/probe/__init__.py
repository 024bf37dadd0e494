"""Measuring without a trace: forward, backward, one throw-away step, forward."""

from rote.probe.compatibility import bare_optimizer, check_model_and_optimizer, unwrapped
from rote.probe.inputs import Inputs, content_hash, frozen, num_samples, take
from rote.probe.measurement import Measurement, Probe
from rote.probe.memorizing_steps import Resistance, resistance
from rote.probe.outputs import LossFunction, cross_entropy, logits_of
from rote.probe.policy import PlainStep, ProbePolicy, StepRule
from rote.probe.ranks import (
    agreed,
    from_first_rank,
    is_first_rank,
    mean_over_ranks,
    rank,
    world_size,
)
from rote.probe.temperature_scaling import (
    expected_calibration_error,
    fit_temperature,
    temperature_for_error,
)

__all__ = [
    "Inputs",
    "LossFunction",
    "Measurement",
    "PlainStep",
    "Probe",
    "ProbePolicy",
    "Resistance",
    "StepRule",
    "agreed",
    "bare_optimizer",
    "check_model_and_optimizer",
    "content_hash",
    "cross_entropy",
    "expected_calibration_error",
    "fit_temperature",
    "from_first_rank",
    "frozen",
    "is_first_rank",
    "logits_of",
    "mean_over_ranks",
    "num_samples",
    "rank",
    "resistance",
    "take",
    "temperature_for_error",
    "unwrapped",
    "world_size",
]
