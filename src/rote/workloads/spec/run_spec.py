"""One run, described completely: what is trained, on what, how, and what is recorded."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from rote.errors import did_you_mean, quote
from rote.extras import is_signal, list_signals, parse_signal
from rote.workloads.spec.data_sections import Data, NamedData, Noise, NoNoise
from rote.workloads.spec.section import (
    MOST_SEED,
    Above,
    AtLeast,
    Between,
    FieldError,
    Section,
    refuse,
)
from rote.workloads.spec.toml_file import locate_errors, read_toml, write_toml
from rote.workloads.spec.training_sections import (
    Architecture,
    Checkpoints,
    Cosine,
    CrossEntropyObjective,
    Objective,
    Optimizer,
    PlainCheckpoints,
    Probing,
    Schedule,
    Sgd,
)

_IDENTITY_VERSION = 1
_NAME_LENGTH = 1000


@dataclass(frozen=True, kw_only=True)
class RunSpec(Section):
    """A run: the same spec gives the same numbers.

    Attributes:
        name: for people; no part of the identity.
        epochs: how many.
        batch: samples per step.
        seed: from which weights, order, augmentation, Mixup and dropout are drawn.
        device: where to run; no part of the identity.
        channels_last: keep images and weights with the channels last in memory.
        bf16: forward passes in bfloat16 where torch thinks it safe.
        clip_norm: scale gradients down to this norm.
        data: what is trained on.
        noise: which labels are made wrong.
        architecture: the network.
        objective: the loss.
        optimizer: the optimizer.
        schedule: of the learning rate.
        probe: how susceptibility is measured.
        checkpoints: which weights are kept.
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
