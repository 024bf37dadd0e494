"""How the probe steps, in which mode, on how many samples, and when."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from rote.errors import InputError


@dataclass(frozen=True)
class PlainStep:
    """One step of plain gradient descent: no momentum, no weight decay, no state.

    The same small step for every run makes runs with different learning rates comparable.

    Args:
        lr: the learning rate.
    """

    lr: float = 0.01

    def __post_init__(self) -> None:
        try:
            lr = float(self.lr)
        except (TypeError, ValueError):
            lr = math.nan
        if isinstance(self.lr, str) or not 0.0 < lr < math.inf:
            raise InputError(f"Expected `lr` to be a positive number, got {self.lr!r}.")
        object.__setattr__(self, "lr", lr)


StepRule: TypeAlias = Literal["live", "fresh"] | PlainStep
"""``live``: the training optimizer with its state. ``fresh``: the same, as if newly built."""


@dataclass(frozen=True)
class ProbePolicy:
    """Options of the probe; the defaults are the paper's Algorithm 1.

    Args:
        optimizer: the step that defines susceptibility: ``"live"`` (the training optimizer with its
            live state), ``"fresh"`` (the same optimizer as if newly built), or a ``PlainStep``.
        plain: a second step measured from the same backward pass, stored as ``drop_plain`` and
            ``susceptibility_plain``; ``None`` saves its one extra forward pass.
        mode: ``"train"`` (batch statistics and dropout, as in training) or ``"eval"``.
        batch: the size of S̃, the first samples of ``inputs``.
        resample: draw a new S̃ with new labels at every probe, instead of one for the whole run.
        every: probe at every n-th call, or whenever a callable ``(step) -> bool`` says so.
        record_predictions: when ``inputs`` is a pool larger than S̃, or comes with
            ``given_labels``, record the predicted class of each of its samples at every probe.
        closure: hand the optimizer a closure that re-evaluates the loss on S̃; only for optimizers
            that ask for one without saying so in their signature (SAM). LBFGS gets one anyway.
        same_masks: both forward passes draw the same dropout masks, so that the drop is not mask
            noise.
        verify: prove by checksum, at every probe, that nothing changed (slow; for debugging).
    """

    optimizer: StepRule = "live"
    plain: PlainStep | None = field(default_factory=PlainStep)
    mode: Literal["train", "eval"] = "train"
    batch: int = 128
    resample: bool = False
    every: int | Callable[[int], bool] = 1
    record_predictions: bool = True
    closure: bool = False
    same_masks: bool = True
    verify: bool = False

    def __post_init__(self) -> None:
        if self.optimizer not in ("live", "fresh") and not isinstance(self.optimizer, PlainStep):
            raise InputError(
                "Expected `optimizer` to be 'live', 'fresh' or a PlainStep, "
                f"got {self.optimizer!r}."
            )
        if self.plain is not None and not isinstance(self.plain, PlainStep):
            raise InputError(f"Expected `plain` to be a PlainStep or None, got {self.plain!r}.")
        if self.mode not in ("train", "eval"):
            raise InputError(f"Expected `mode` to be 'train' or 'eval', got {self.mode!r}.")
        object.__setattr__(self, "batch", _as_positive("batch", self.batch))
        if not callable(self.every):
            object.__setattr__(self, "every", _as_positive("every", self.every))

    @property
    def rules(self) -> tuple[StepRule, ...]:
        """The step rules to measure, each once."""
        wanted = (self.optimizer,) if self.plain is None else (self.optimizer, self.plain)
        return tuple(dict.fromkeys(wanted))

    def describe(self) -> dict[str, Any]:
        """The policy as plain values, for the record."""
        every: Any = self.every
        if callable(every):
            inner = getattr(every, "func", every)  # of a functools.partial
            every = getattr(inner, "__qualname__", type(inner).__qualname__)
        return asdict(replace(self, every=1)) | {"every": every}

    def measures_as(self, description: Mapping[str, Any]) -> bool:
        """Whether a policy so described reads the same; to verify or not changes no reading."""
        return {**self.describe(), "verify": None} == {**description, "verify": None}


def _as_positive(name: str, value: object) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # refused if it does not fit
    except TypeError:
        number = 0
    if isinstance(value, bool) or number < 1:
        raise InputError(f"Expected `{name}` to be a positive integer, got {value!r}.")
    return number
