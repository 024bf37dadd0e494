"""Options of the probe: which steps, in which mode, on how many samples, and when."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import torch

from rote.arguments import check_choice, check_integer, check_number
from rote.errors import InputError

Mode: TypeAlias = Literal["train", "eval"]


@dataclass(frozen=True)
class PlainStep:
    """One step of plain gradient descent: no momentum, no weight decay, no state.

    The same small step for every run makes runs with different learning rates comparable.

    Args:
        lr: the learning rate.

    Example:
        >>> import rote
        >>> rote.ProbePolicy(optimizer=rote.PlainStep(lr=0.1)).optimizer
        PlainStep(lr=0.1)
    """

    lr: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "lr", check_number("lr", self.lr, above=0))


StepRule: TypeAlias = Literal["live", "fresh"] | PlainStep
"""``live``: the training optimizer with its state. ``fresh``: the same, as if newly built."""


def check_rule(name: str, rule: object) -> None:
    """Refuse a value that is not a step rule.

    Raises:
        InputError: naming the argument.
    """
    if rule not in ("live", "fresh") and not isinstance(rule, PlainStep):
        raise InputError(f"Expected `{name}` to be 'live', 'fresh' or a PlainStep, got {rule!r}.")


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
        record_predictions: when ``inputs`` is a holdout larger than S̃, or comes with
            ``given_labels``, record the predicted class of each of its samples at every probe.
        closure: pass the optimizer a closure that re-evaluates the loss on S̃; only for optimizers
            that need one although their signature does not say so (SAM). LBFGS always gets one.
        same_masks: both forward passes draw the same dropout masks, so that the drop is not mask
            noise.
        verify: prove by checksum at every probe, not only at the trial, that nothing changed.
        micro_batch: the number of samples to pass through the model at once; by default all of S̃.
            Gradients are accumulated, so that the step is the same up to the order of sums. The
            objective must be a mean over samples. Models with batch statistics ignore it.
        snapshot_device: where to keep the copies of trained parameters and optimizer state during
            a probe, such as ``"cpu"``; by default on their own device.

    Example:
        >>> ProbePolicy(batch=64, micro_batch=8).rules
        ('live', PlainStep(lr=0.01))
    """

    optimizer: StepRule = "live"
    plain: PlainStep | None = field(default_factory=PlainStep)
    mode: Mode = "train"
    batch: int = 128
    resample: bool = False
    every: int | Callable[[int], bool] = 1
    record_predictions: bool = True
    closure: bool = False
    same_masks: bool = True
    verify: bool = False
    micro_batch: int | None = None
    snapshot_device: str | None = None

    def __post_init__(self) -> None:
        check_rule("optimizer", self.optimizer)
        if self.plain is not None and not isinstance(self.plain, PlainStep):
            raise InputError(f"Expected `plain` to be a PlainStep or None, got {self.plain!r}.")
        check_choice("mode", self.mode, get_args(Mode))
        object.__setattr__(self, "batch", check_integer("batch", self.batch, least=1))
        if self.micro_batch is not None:
            size = check_integer("micro_batch", self.micro_batch, least=1)
            object.__setattr__(self, "micro_batch", size)
        if self.snapshot_device is not None:
            _check_device(self.snapshot_device)
        if not callable(self.every):
            object.__setattr__(self, "every", check_integer("every", self.every, least=1))

    @property
    def rules(self) -> tuple[StepRule, ...]:
        """Return the step rules to measure, each once."""
        wanted = (self.optimizer,) if self.plain is None else (self.optimizer, self.plain)
        return tuple(dict.fromkeys(wanted))

    def describe(self) -> dict[str, Any]:
        """Return the policy as plain values, for the record."""
        every: Any = self.every
        if callable(every):
            inner = getattr(every, "func", every)  # of a functools.partial
            every = getattr(inner, "__qualname__", type(inner).__qualname__)
        return asdict(replace(self, every=1)) | {"every": every}

    def measures_as(self, description: Mapping[str, Any]) -> bool:
        """Return whether a policy with this description measures the same."""
        return select_measured(self.describe()) == select_measured(description)


def select_measured(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a policy without options that only change rounding."""
    unmeasured = ("verify", "micro_batch", "snapshot_device")
    return {name: value for name, value in description.items() if name not in unmeasured}


def _check_device(device: object) -> None:
    try:
        torch.device(device)  # type: ignore[call-overload]
    except (RuntimeError, TypeError) as error:
        raise InputError(
            f"Expected `snapshot_device` to be the name of a device such as 'cpu', got {device!r}."
        ) from error
