"""Measuring without a trace: forward, backward, one throw-away step, forward."""

from rote.probe.compatibility import (
    JointOptimizer,
    check_model_and_optimizer,
    list_members,
    unwrap,
    unwrap_optimizer,
)
from rote.probe.dataset import LABEL_KEYS, SampleSource, draw_batch, find_inputs, is_dataset
from rote.probe.inputs import (
    Inputs,
    Samples,
    call,
    copy_inputs,
    count_samples,
    hash_content,
    is_bundle,
    move_inputs,
    take,
)
from rote.probe.measurement import Probe
from rote.probe.memorizing_steps import Resistance, resistance
from rote.probe.objective import LogitsAt, capture_logits, make_objective
from rote.probe.optimizer_watch import OptimizerWatch
from rote.probe.outputs import LossFunction, cross_entropy, find_logits, predict_classes
from rote.probe.policy import PlainStep, ProbePolicy, StepRule
from rote.probe.ranks import (
    broadcast_from_first,
    count_ranks,
    fail_together,
    get_rank,
    is_first_rank,
    mean_over_ranks,
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
    "broadcast_from_first",
    "call",
    "capture_logits",
    "check_model_and_optimizer",
    "copy_inputs",
    "count_ranks",
    "count_samples",
    "cross_entropy",
    "draw_batch",
    "expected_calibration_error",
    "fail_together",
    "find_inputs",
    "find_logits",
    "fit_temperature",
    "get_rank",
    "hash_content",
    "is_bundle",
    "is_dataset",
    "is_first_rank",
    "list_members",
    "make_objective",
    "mean_over_ranks",
    "move_inputs",
    "predict_classes",
    "resistance",
    "take",
    "temperature_for_error",
    "unwrap",
    "unwrap_optimizer",
]
