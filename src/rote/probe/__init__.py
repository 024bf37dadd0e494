"""Measurements that change no training state: forward, backward, a temporary step, forward."""

from rote.probe.compatibility import (
    check_model_and_optimizer as check_model_and_optimizer,
    list_members as list_members,
    unwrap as unwrap,
    unwrap_optimizer as unwrap_optimizer,
)
from rote.probe.dataset import (
    LABEL_KEYS as LABEL_KEYS,
    SampleSource as SampleSource,
    draw_batch as draw_batch,
    find_inputs as find_inputs,
    is_dataset as is_dataset,
)
from rote.probe.inputs import (
    Inputs as Inputs,
    Samples,
    copy_inputs as copy_inputs,
    count_samples as count_samples,
    hash_content as hash_content,
    is_bundle as is_bundle,
    move_inputs as move_inputs,
    take as take,
)
from rote.probe.measurement import Probe as Probe
from rote.probe.memorizing_steps import Resistance, resistance
from rote.probe.objective import (
    LogitsAt,
    LossFunction as LossFunction,
    call as call,
    capture_logits as capture_logits,
    cross_entropy,
    evaluate_objective as evaluate_objective,
    find_logits as find_logits,
    predict_classes as predict_classes,
)
from rote.probe.optimizer_watch import OptimizerWatch as OptimizerWatch
from rote.probe.policy import PlainStep, ProbePolicy, select_measured as select_measured
from rote.probe.ranks import (
    average_over_ranks,
    broadcast_from_first,
    count_ranks,
    fail_together,
    get_rank,
    is_first_rank,
)
from rote.probe.session import Measurement as Measurement
from rote.probe.steps import Backward as Backward
from rote.probe.temperature_scaling import (
    find_temperature_for_error,
    fit_temperature,
    measure_calibration_error,
)

__all__ = [
    "LogitsAt",
    "PlainStep",
    "ProbePolicy",
    "Resistance",
    "Samples",
    "average_over_ranks",
    "broadcast_from_first",
    "count_ranks",
    "cross_entropy",
    "fail_together",
    "find_temperature_for_error",
    "fit_temperature",
    "get_rank",
    "is_first_rank",
    "measure_calibration_error",
    "resistance",
]
