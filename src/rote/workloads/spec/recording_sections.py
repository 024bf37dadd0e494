"""What is recorded of a run: the probe and the checkpoints."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from rote.errors import shown
from rote.workloads.spec.constraints import Above, AtLeast
from rote.workloads.spec.field_error import FieldError
from rote.workloads.spec.section import Section


@dataclass(frozen=True, kw_only=True)
class Probing(Section):
    """The probe (``rote.ProbePolicy`` has the definitions).

    Attributes:
        holdout: ``auto`` keeps training samples out of training, ``train`` takes S̃ from the
            training set, anything else is the path of an ``.npz`` with unlabeled samples.
        holdout_size: how many samples ``auto`` keeps out; min(512, 10 %) by default.
        batch: the size of S̃.
        every: measure after every n-th epoch.
        mode: of the network while it is probed.
        step: the optimizer's own step, or that of a newly built one.
        plain_lr: the learning rate of the plain step.
        resample: a new S̃ for every probe.
        same_masks: the same dropout before and after the step.
        seed: of the random labels of S̃; apart from the seed of the run, so that all runs of a
            sweep are measured alike.
        neighbors: record how the nearest training samples of each holdout sample are labeled
            (``rote.neighbor_votes``); no part of the identity, for no reading depends on it.
    """

    holdout: str = "auto"
    holdout_size: Annotated[int, AtLeast(1)] | None = None
    batch: Annotated[int, AtLeast(1)] = 128
    every: Annotated[int, AtLeast(1)] = 1
    mode: Literal["train", "eval"] = "train"
    step: Literal["live", "fresh"] = "live"
    plain_lr: Annotated[float, Above(0)] = 0.01
    resample: bool = False
    same_masks: bool = True
    seed: Annotated[int, AtLeast(0)] = 0
    neighbors: bool = field(default=True, metadata={"identity": False})

    def check(self) -> None:
        """Only a holdout that is set aside has a size to choose."""
        if self.holdout_size is not None and self.holdout != "auto":
            raise FieldError(
                "holdout_size",
                f"to be left out with holdout {shown(self.holdout)}, got {self.holdout_size}.",
            )


@dataclass(frozen=True, kw_only=True)
class PlainCheckpoints(Section):
    """Weights of every measured epoch, of the last one only, or of none.

    Attributes:
        keep: which.
        resume_every: after every n-th epoch, save what is needed to go on after a kill.
    """

    tag: ClassVar[str | None] = "keep"

    keep: Literal["all", "last", "none"] = "all"
    resume_every: Annotated[int, AtLeast(1)] = 1


@dataclass(frozen=True, kw_only=True)
class BestCheckpoints(Section):
    """Weights of the ``k`` best measured epochs.

    Attributes:
        keep: ``best``.
        k: how many.
        metric: any number of a reading, such as ``validation_accuracy`` or ``susceptibility``.
        mode: whether the largest or the smallest values are best.
        resume_every: after every n-th epoch, save what is needed to go on after a kill.
    """

    tag: ClassVar[str | None] = "keep"

    keep: Literal["best"] = "best"
    k: Annotated[int, AtLeast(1)] = 3
    metric: str = "validation_accuracy"
    mode: Literal["max", "min"] = "max"
    resume_every: Annotated[int, AtLeast(1)] = 1


Checkpoints: TypeAlias = PlainCheckpoints | BestCheckpoints
