"""Measuring without a trace: forward, backward, one throw-away step, forward."""

from rote.probe.compatibility import (
    JointOptimizer,
    bare_optimizer,
    check_model_and_optimizer,
    members_of,
    unwrapped,
)
from rote.probe.dataset import LABEL_KEYS, SampleSource, draw_batch, inputs_in, is_dataset
from rote.probe.inputs import (
    Inputs,
    Samples,
    call,
    content_hash,
    frozen,
    is_bundle,
    num_samples,
    placed,
    take,
)
from rote.probe.measurement import Probe
from rote.probe.memorizing_steps import Resistance, resistance
from rote.probe.objective import LogitsAt, logits_in, objective_of
from rote.probe.optimizer_watch import OptimizerWatch
from rote.probe.outputs import LossFunction, cross_entropy, logits_of, predicted_classes
from rote.probe.policy import PlainStep, ProbePolicy, StepRule
from rote.probe.ranks import (
    agreed,
    from_first_rank,
    is_first_rank,
    mean_over_ranks,
    rank,
    world_size,
)
from rote.probe.session import Measurement
from rote.probe.steps import Backward
from rote.probe.temperature_scaling import (
    expected_calibration_error,
    fit_temperature,
    temperature_for_error,
)

__all__ = [
    "LABEL_KEYS",
    "Backward",
    "Inputs",
    "JointOptimizer",
    "LogitsAt",
    "LossFunction",
    "Measurement",
    "OptimizerWatch",
    "PlainStep",
    "Probe",
    "ProbePolicy",
    "Resistance",
    "SampleSource",
    "Samples",
    "StepRule",
    "agreed",
    "bare_optimizer",
    "call",
    "check_model_and_optimizer",
    "content_hash",
    "cross_entropy",
    "draw_batch",
    "expected_calibration_error",
    "fit_temperature",
    "from_first_rank",
    "frozen",
    "inputs_in",
    "is_bundle",
    "is_dataset",
    "is_first_rank",
    "logits_in",
    "logits_of",
    "mean_over_ranks",
    "members_of",
    "num_samples",
    "objective_of",
    "placed",
    "predicted_classes",
    "rank",
    "resistance",
    "take",
    "temperature_for_error",
    "unwrapped",
    "world_size",
]
