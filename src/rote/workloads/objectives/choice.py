"""From the objective section of a spec to the objective."""

from rote.workloads.objectives.active_passive import NceRce, NflRce, suggested_weights
from rote.workloads.objectives.cdr import Cdr
from rote.workloads.objectives.mixup import Mixup
from rote.workloads.objectives.objective import CrossEntropy, Objective
from rote.workloads.spec import (
    ActivePassiveObjective,
    AnyNoise,
    CdrObjective,
    FieldError,
    MixupObjective,
    RunSpec,
)


def make_objective(spec: RunSpec, num_classes: int) -> Objective:
    """Make the objective of a run.

    Raises:
        FieldError: if CDR is not told the noise rate.
    """
    chosen = spec.objective
    if isinstance(chosen, ActivePassiveObjective):
        alpha, beta = suggested_weights(num_classes)
        build = NceRce if chosen.name == "nce-rce" else NflRce
        return build(
            alpha=alpha if chosen.alpha is None else chosen.alpha,
            beta=beta if chosen.beta is None else chosen.beta,
        )
    if isinstance(chosen, MixupObjective):
        return Mixup(chosen.alpha, seed=spec.seed)
    if isinstance(chosen, CdrObjective):
        return Cdr(
            _noise_rate(spec, chosen),
            schedule=chosen.schedule,
            gradual_epochs=chosen.gradual_epochs,
            l1=chosen.l1,
        )
    return CrossEntropy()


def _noise_rate(spec: RunSpec, chosen: CdrObjective) -> float:
    if chosen.noise_rate is not None:
        return chosen.noise_rate
    if isinstance(spec.noise, AnyNoise) and spec.noise.rate < 1:
        return spec.noise.rate
    raise FieldError(
        "objective.noise_rate",
        "to be given, a number from 0 below 1, where the noise does not tell it, got nothing.",
    )
