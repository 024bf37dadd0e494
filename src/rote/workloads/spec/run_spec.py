"""The spec of a run and its sections, apart from those of data and noise."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias

from rote.errors import did_you_mean, quote
from rote.extras import is_signal, list_signals, parse_signal
from rote.workloads.architectures import ARCHITECTURES
from rote.workloads.spec.data_sections import Data, NamedData, Noise, NoNoise
from rote.workloads.spec.section import (
    MOST_SEED,
    Above,
    AtLeast,
    Between,
    FieldError,
    Options,
    Section,
    refuse,
)
from rote.workloads.spec.toml_file import locate_errors, read_toml, write_toml

_IDENTITY_VERSION = 1
_NAME_LENGTH = 1000


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
    """A constant learning rate."""

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


@dataclass(frozen=True, kw_only=True)
class Probing(Section):
    """The probe (``rote.ProbePolicy`` has the definitions).

    Attributes:
        holdout: ``auto`` keeps training samples out of training, ``train`` takes S̃ from the
            training set, anything else is the path of an ``.npz`` with unlabeled samples.
        holdout_size: the number of samples ``auto`` keeps out; min(512, 10 %) by default.
        batch: the size of S̃.
        every: measure after every n-th epoch.
        mode: of the network while it is probed.
        step: the optimizer's own step, or that of a newly built one.
        plain_lr: the learning rate of the reference step.
        resample: a new S̃ for every probe.
        same_masks: the same dropout before and after the step.
        seed: of the random labels of S̃; apart from the seed of the run, so that all runs of a
            sweep are measured alike.
        folds: into how many parts the samples are divided, so that each is held out by one run;
            None holds out ``holdout_size`` of them.
        holdout_rows: an ``.npy`` file with the positions of the samples to hold out, as ``rote
            clean`` writes it; instead of random ones.
        fold: which of these parts is held out, from 0.
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
    seed: Annotated[int, Between(0, MOST_SEED)] = 0
    holdout_rows: str | None = None
    folds: Annotated[int, AtLeast(2)] | None = None
    fold: Annotated[int, AtLeast(0)] = 0
    neighbors: bool = field(default=True, metadata={"identity": False})

    def check(self) -> None:
        """Refuse a size or folds of a holdout that is not set aside."""
        if self.fold >= (self.folds or 1):
            raise FieldError(
                "fold", f"to be below `folds` ({self.folds or 'not set'}), got {self.fold}."
            )
        if self.holdout_rows is not None and (self.holdout != "auto" or self.folds is not None):
            raise FieldError("holdout_rows", "applies to holdout 'auto' without folds only.")
        if self.folds is not None and (self.holdout != "auto" or self.holdout_size is not None):
            raise FieldError("folds", "applies to holdout 'auto' without a holdout_size only.")
        if self.holdout_size is not None and self.holdout != "auto":
            raise FieldError(
                "holdout_size",
                f"applies to holdout 'auto' only, not to {quote(self.holdout)}.",
            )


@dataclass(frozen=True, kw_only=True)
class PlainCheckpoints(Section):
    """Weights of every measured epoch, of the last one only, or of none.

    Attributes:
        keep: which.
        resume_every: after every n-th epoch, save the state from which a killed run resumes.
    """

    tag: ClassVar[str | None] = "keep"

    keep: Literal["all", "last", "none"] = "all"
    resume_every: Annotated[int, AtLeast(1)] = 1


@dataclass(frozen=True, kw_only=True)
class BestCheckpoints(Section):
    """Weights of the ``k`` best measured epochs.

    Attributes:
        keep: ``best``.
        k: the number of checkpoints.
        metric: any number of a reading, such as ``validation_accuracy`` or ``susceptibility``.
        mode: whether the largest or the smallest values are best.
        resume_every: after every n-th epoch, save the state from which a killed run resumes.
    """

    tag: ClassVar[str | None] = "keep"

    keep: Literal["best"] = "best"
    k: Annotated[int, AtLeast(1)] = 3
    metric: str = "validation_accuracy"
    mode: Literal["max", "min"] = "max"
    resume_every: Annotated[int, AtLeast(1)] = 1


Checkpoints: TypeAlias = PlainCheckpoints | BestCheckpoints


@dataclass(frozen=True, kw_only=True)
class RunSpec(Section):
    """A run: the same spec gives the same numbers.

    Attributes:
        name: a name for people; not part of the run's identity.
        epochs: the number of epochs.
        batch: samples per step.
        seed: from which weights, order, augmentation, Mixup and dropout are drawn.
        device: the device; not part of the run's identity.
        channels_last: keep images and weights with the channels last in memory.
        bf16: forward passes in bfloat16 where torch thinks it safe.
        clip_norm: scale gradients down to this norm.
        data: the training data.
        noise: the label noise to add.
        architecture: the network.
        objective: the loss.
        optimizer: the optimizer.
        schedule: the schedule of the learning rate.
        probe: the settings of the probe.
        checkpoints: which checkpoints to keep.
        signals: what is observed beside ζ, by name (``rote.tracking.list_signals``) or as
            ``package.module:Name``.

    Raises:
        FieldError: an ``InputError`` that names the field.

    Example:
        >>> spec = RunSpec.from_dict({"optimizer": {"name": "sgd", "lr": 0.1}, "noise": "none"})
        >>> spec.identity == RunSpec().identity, spec.optimizer.lr
        (True, 0.1)
    """

    name: str | None = field(default=None, metadata={"identity": False})
    epochs: Annotated[int, AtLeast(1)] = 30
    batch: Annotated[int, AtLeast(2)] = 128
    seed: Annotated[int, Between(0, MOST_SEED)] = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = field(
        default="auto", metadata={"identity": False}
    )
    channels_last: bool = True
    bf16: bool = False
    clip_norm: Annotated[float, Above(0)] | None = None
    data: Data = field(default_factory=NamedData)
    noise: Noise = field(default_factory=NoNoise)
    architecture: Architecture = field(default_factory=Architecture)
    objective: Objective = field(default_factory=CrossEntropyObjective)
    optimizer: Optimizer = field(default_factory=Sgd)
    schedule: Schedule = field(default_factory=Cosine)
    probe: Probing = field(default_factory=Probing)
    checkpoints: Checkpoints = field(default_factory=PlainCheckpoints)
    signals: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse sections that contradict each other, and a name that is too long."""
        if self.name is not None and len(self.name) > _NAME_LENGTH:
            raise refuse("name", f"text of at most {_NAME_LENGTH} characters", self.name)
        if self.epochs % self.probe.every:
            raise FieldError(
                "probe.every",
                f"to divide `epochs` ({self.epochs}), so that the last epoch is measured, "
                f"got {self.probe.every}.",
            )
        labels = getattr(self.data, "labels", None)
        if labels is not None and not isinstance(self.noise, NoNoise):
            raise FieldError(
                "noise.model",
                f"to be 'none' because `data.labels` = {quote(labels)} is noisy already, got "
                f"{self.noise.model!r}.",
            )
        if self.signals:
            _check_signals(self.signals)

    @property
    def identity(self) -> str:
        """A hash of everything that sets the run apart; the same however the spec was written."""
        identity_fields = {"version": _IDENTITY_VERSION, **self.identity_fields()}
        text = json.dumps(identity_fields, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @classmethod
    def from_toml(cls, path: str | Path) -> "RunSpec":
        """Read a spec from a file.

        Raises:
            InputError: naming file, line and field, what is expected and what is there.
        """
        with locate_errors(path):
            return cls.from_dict(read_toml(path))

    def to_toml(self) -> str:
        """Return the spec as TOML, every field written out."""
        return write_toml(self.to_dict())


def _check_signals(signals: tuple[str, ...]) -> None:
    for signal in signals:
        name, _ = parse_signal(signal)
        if ":" not in signal and not is_signal(name):
            known = list_signals()
            raise FieldError(
                "signals",
                f"to be one of {', '.join(known)}, or package.module:Name, got {quote(signal)}."
                f"{did_you_mean(name, known)}",
            )
