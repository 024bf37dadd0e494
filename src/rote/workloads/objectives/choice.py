"""From the objective section of a spec to the objective."""

from rote.workloads.objectives.cdr import Cdr
from rote.workloads.objectives.cross_entropy import CrossEntropy
from rote.workloads.objectives.mixup import Mixup
from rote.workloads.objectives.nce_rce import NceRce
from rote.workloads.objectives.nfl_rce import NflRce
from rote.workloads.objectives.objective import Objective
from rote.workloads.spec import (
    ActivePassiveObjective,
    AnyNoise,
    CdrObjective,
    FieldError,
    MixupObjective,
    RunSpec,
)

_FEW_CLASSES = 10


def suggested_weights(num_classes: int) -> tuple[float, float]:
    """α and β of NCE+RCE and NFL+RCE that their authors use for so many classes.

    Example:
        >>> suggested_weights(10), suggested_weights(100)
        ((1.0, 1.0), (10.0, 0.1))
    """
    return (1.0, 1.0) if num_classes <= _FEW_CLASSES else (10.0, 0.1)


def make_objective(spec: RunSpec, num_classes: int) -> Objective:
    """Make the objective of a run.

    Args:
        spec: the run.
        num_classes: how many classes.

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
