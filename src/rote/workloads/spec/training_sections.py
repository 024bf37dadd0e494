"""How a network is trained: its architecture, objective, optimizer and schedule."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from rote.errors import did_you_mean
from rote.workloads.architectures import ARCHITECTURES
from rote.workloads.spec.constraints import Above, AtLeast, Between
from rote.workloads.spec.field_error import refuse
from rote.workloads.spec.options import Options
from rote.workloads.spec.section import Section


class _Named(Section):
    tag: ClassVar[str | None] = "name"


@dataclass(frozen=True, kw_only=True)
class Architecture(_Named):
    """The network.

    Attributes:
        name: one that rote knows, or ``package.module:factory``.
        scale: multiplies channels and hidden units.
        options: further arguments of the factory.
    """

    name: str = "cnn"
    scale: Annotated[float, Above(0)] = 1.0
    options: Options = field(default_factory=Options)

    def check(self) -> None:
        """Only names that can be built."""
        if self.name not in ARCHITECTURES and ":" not in self.name:
            known = list(ARCHITECTURES)
            expected = f"one of {', '.join(known)}, or package.module:factory"
            raise refuse("name", expected, self.name, did_you_mean(self.name, known))


@dataclass(frozen=True, kw_only=True)
class CrossEntropyObjective(_Named):
    """Plain cross entropy."""

    name: Literal["cross-entropy"] = "cross-entropy"


@dataclass(frozen=True, kw_only=True)
class ActivePassiveObjective(_Named):
    """``alpha`` · active loss + ``beta`` · passive loss (Ma et al. 2020).

    Attributes:
        name: NCE+RCE or NFL+RCE.
        alpha: weight of the active loss; by the number of classes by default.
        beta: weight of the passive loss; by the number of classes by default.
    """

    name: Literal["nce-rce", "nfl-rce"]
    alpha: Annotated[float, AtLeast(0)] | None = None
    beta: Annotated[float, AtLeast(0)] | None = None


@dataclass(frozen=True, kw_only=True)
class MixupObjective(_Named):
    """Cross entropy on mixed pairs of samples.

    Attributes:
        name: ``mixup``.
        alpha: of the Beta distribution from which the share of the first sample is drawn.
    """

    name: Literal["mixup"] = "mixup"
    alpha: Annotated[float, Above(0)] = 1.0


@dataclass(frozen=True, kw_only=True)
class CdrObjective(_Named):
    """Robust early learning: only critical weights follow the gradient (Xia et al. 2021).

    Attributes:
        name: ``cdr``.
        noise_rate: τ; the rate of the run's noise by default.
        schedule: ``gradual`` lowers the critical share from 1 to 1 − τ, as in the paper;
            ``constant`` is 1 − τ from the start, as in the authors' code.
        gradual_epochs: over how many epochs it is lowered.
        l1: λ, the weight of the L1 decay of ranked weights; with 0 decay is the optimizer's.
    """

    name: Literal["cdr"] = "cdr"
    noise_rate: Annotated[float, Between(0, 1, below=True)] | None = None
    schedule: Literal["gradual", "constant"] = "gradual"
    gradual_epochs: Annotated[int, AtLeast(1)] = 10
    l1: Annotated[float, AtLeast(0)] = 0.0


Objective: TypeAlias = (
    CrossEntropyObjective | ActivePassiveObjective | MixupObjective | CdrObjective
)


@dataclass(frozen=True, kw_only=True)
class Sgd(_Named):
    """Stochastic gradient descent."""

    name: Literal["sgd"] = "sgd"
    lr: Annotated[float, Above(0)] = 0.1
    momentum: Annotated[float, Between(0, 1, below=True)] = 0.9
    weight_decay: Annotated[float, AtLeast(0)] = 5e-4
    nesterov: bool = False

    def check(self) -> None:
        """Nesterov's step needs momentum."""
        if self.nesterov and self.momentum == 0:
            raise refuse("momentum", "a number above 0 with nesterov", self.momentum)


@dataclass(frozen=True, kw_only=True)
class Adam(_Named):
    """Adam, or AdamW with decoupled weight decay."""

    name: Literal["adam", "adamw"] = "adam"
    lr: Annotated[float, Above(0)] = 1e-3
    beta1: Annotated[float, Between(0, 1, below=True)] = 0.9
    beta2: Annotated[float, Between(0, 1, below=True)] = 0.999
    eps: Annotated[float, Above(0)] = 1e-8
    weight_decay: Annotated[float, AtLeast(0)] = 5e-4


Optimizer: TypeAlias = Sgd | Adam


@dataclass(frozen=True, kw_only=True)
class NoSchedule(_Named):
    """One learning rate throughout."""

    name: Literal["none"] = "none"


@dataclass(frozen=True, kw_only=True)
class Cosine(_Named):
    """Half a cosine down over ``t_max`` epochs, and up again after that.

    Attributes:
        name: ``cosine``.
        t_max: epochs to the lowest learning rate; all epochs of the run by default.
        min_lr: the lowest learning rate.
    """

    name: Literal["cosine"] = "cosine"
    t_max: Annotated[int, AtLeast(1)] | None = None
    min_lr: Annotated[float, AtLeast(0)] = 0.0


@dataclass(frozen=True, kw_only=True)
class Exponential(_Named):
    """The learning rate times ``gamma`` after every epoch."""

    name: Literal["exponential"] = "exponential"
    gamma: Annotated[float, Above(0), Between(0, 1)] = 0.95


Schedule: TypeAlias = NoSchedule | Cosine | Exponential
