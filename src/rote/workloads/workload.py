"""A run in memory: network, optimizer, objective and data on a device, trained epoch by epoch."""

import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam as TorchAdam, AdamW, Optimizer

from rote.errors import InputError
from rote.probe import PlainStep, ProbePolicy
from rote.tracking import Signal, Tracker
from rote.workloads.architectures import ARCHITECTURES, build_architecture
from rote.workloads.data.splits import Splits
from rote.workloads.evaluation import CrossEntropyDrop, Evaluation, OutOfSampleSignal
from rote.workloads.objectives import make_objective
from rote.workloads.randomness import derive_seed, make_torch_generator
from rote.workloads.spec import (
    Cosine,
    Exponential,
    FieldError,
    MixupObjective,
    Optimizer as OptimizerSpec,
    RunSpec,
    Sgd,
)

_TAKES_ROWS = "mlp"


def choose_device(name: str) -> torch.device:
    """Choose the device of a run; ``auto`` takes the first available of cuda, mps and cpu.

    Raises:
        FieldError: if a device is asked for that is not there.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, is_there in there.items() if is_there))
    if not there[name]:
        found = ", ".join(kind for kind, is_there in there.items() if is_there)
        raise FieldError("device", f"to be an available device ({found}), got {name!r}.")
    return torch.device(name)


@contextmanager
def make_repeatable(device: torch.device, threads: int) -> Iterator[None]:
    """Compute in a way that gives the same bits every time, and put the settings back after.

    Sums depend on the number of threads of a CPU.
    """
    if device.type == "cuda":
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
            yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def choose_precision(device: torch.device, *, bf16: bool) -> AbstractContextManager[object]:
    """Return a block whose forward passes use bfloat16 where torch considers it safe."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if bf16 else nullcontext()


def make_optimizer(spec: OptimizerSpec, parameters: Iterable[Tensor]) -> Optimizer:
    """Make the optimizer of a run."""
    if isinstance(spec, Sgd):
        return SGD(
            parameters,
            lr=spec.lr,
            momentum=spec.momentum,
            weight_decay=spec.weight_decay,
            nesterov=spec.nesterov,
        )
    build = AdamW if spec.name == "adamw" else TorchAdam
    return build(
        parameters,
        lr=spec.lr,
        betas=(spec.beta1, spec.beta2),
        eps=spec.eps,
        weight_decay=spec.weight_decay,
    )


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    """Give every group of parameters this learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def get_learning_rate(spec: RunSpec, epoch: int) -> float:
    """Return the learning rate with which an epoch (from 1) is trained, and then probed.

    Example:
        >>> spec = RunSpec.from_dict({"schedule": {"name": "cosine", "t_max": 2}, "epochs": 4})
        >>> [round(get_learning_rate(spec, epoch), 3) for epoch in (1, 2, 3, 4)]
        [0.1, 0.05, 0.0, 0.05]
    """
    base, passed = spec.optimizer.lr, epoch - 1
    schedule = spec.schedule
    if isinstance(schedule, Cosine):
        period = spec.epochs if schedule.t_max is None else schedule.t_max
        share = (1 + math.cos(math.pi * passed / period)) / 2
        return schedule.min_lr + (base - schedule.min_lr) * share
    if isinstance(schedule, Exponential):
        return base * schedule.gamma**passed
    return base


class Workload:
    """A run's network, data and objective, ready to train epoch after epoch.

    Every epoch draws from generators of its own, named after its number: to resume after an
    interruption, weights and optimizer are all that must be restored.

    Attributes:
        spec: the run.
        splits: its data.
        model: the network.
        optimizer: its optimizer.
        objective: the training objective.
        out_of_sample: the probabilities of the held-out fold, where the run has folds.

    Args:
        spec: the run.
        splits: its data.
        device: the device of the training.
    """

    def __init__(self, spec: RunSpec, splits: Splits, device: torch.device) -> None:
        self.spec = spec
        self.splits = splits
        self.objective = make_objective(spec, splits.num_classes)
        self.model = make_network(spec, splits, device)
        self.optimizer = make_optimizer(spec.optimizer, self.model.parameters())
        self.out_of_sample: OutOfSampleSignal | None = None
        self._device = device

    @property
    def policy(self) -> ProbePolicy:
        """How it is probed."""
        probe = self.spec.probe
        return ProbePolicy(
            optimizer=probe.step,
            plain=PlainStep(probe.plain_lr),
            mode=probe.mode,
            batch=probe.batch,
            resample=probe.resample,
            every=probe.every,
            same_masks=probe.same_masks,
        )

    def precision(self) -> AbstractContextManager[object]:
        """Return a block that sets the precision of forward passes."""
        return choose_precision(self._device, bf16=self.spec.bf16)

    def train_epoch(self, epoch: int, tracker: Tracker | None = None) -> dict[str, float]:
        """Train on every sample once.

        Args:
            epoch: its number, from 1.
            tracker: whose signals are shown the batches; not those that Mixup mixed.

        Returns:
            The learning rate and the mean training loss.
        """
        lr = get_learning_rate(self.spec, epoch)
        set_learning_rate(self.optimizer, lr)
        torch.manual_seed(derive_seed(self.spec.seed, "layers", epoch))  # dropout
        self.objective.start_epoch(epoch)
        augment = make_torch_generator(self.spec.seed, "augmentation", epoch)
        total = torch.zeros((), device=self._device)
        for chosen in self._draw_batches(epoch):
            inputs = self.splits.train.batch(chosen, augment)
            labels = self.splits.labels.index_select(0, chosen)
            loss, logits = self._step(inputs, labels)
            if tracker is not None and logits is not None:
                tracker.observe(
                    labels=labels, logits=logits, inputs=inputs, indices=chosen, loss=loss
                )
            total += loss * len(chosen)
        return {"lr": lr, "train_loss": total.item() / len(self.splits.train)}

    def signals(self) -> list[str | Signal]:
        """Return what is measured beside ζ: accuracies, extra drops, and the spec's signals."""
        found: list[str | Signal] = [Evaluation(self.model, self.splits, self.precision)]
        if self.objective.is_robust:
            found.append(CrossEntropyDrop(self.precision))
        if self.spec.probe.folds is not None:
            self.out_of_sample = OutOfSampleSignal(self.model, self.splits, self.precision)
            found.append(self.out_of_sample)
        return [*found, *self.spec.signals]

    def state_dict(self) -> dict[str, Any]:
        """Return weights and optimizer state."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore weights and optimizer from a state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _step(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision():
            loss, logits = self.objective.training_loss(self.model, inputs, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.objective.shape_gradients(self.model.parameters())
        if self.spec.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.spec.clip_norm)
        self.optimizer.step()
        return loss.detach(), logits

    def _draw_batches(self, epoch: int) -> list[Tensor]:
        """Return every sample once, in random order; batch norm cannot take a batch of one."""
        generator = make_torch_generator(self.spec.seed, "order", epoch)
        order = torch.randperm(len(self.splits.train), generator=generator).to(self._device)
        batches = list(torch.split(order, self.spec.batch))
        if len(batches) > 1 and len(batches[-1]) == 1:
            single = batches.pop()
            batches[-1] = torch.cat([batches[-1], single])
        return batches


def make_network(spec: RunSpec, splits: Splits, device: torch.device) -> nn.Module:
    """Build the network of a run, in train mode; leaves torch's global generators seeded.

    Raises:
        FieldError: if the architecture does not fit the data, or its options do not fit it.
    """
    _check_inputs(spec, splits)
    torch.manual_seed(derive_seed(spec.seed, "weights"))
    model = build_network(spec, splits)
    if splits.is_images and spec.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to(device).train()


def build_network(spec: RunSpec, splits: Splits) -> nn.Module:
    """Build the architecture of a spec in the shape that its data need.

    Raises:
        FieldError: if its options do not fit it.
    """
    try:
        return build_architecture(
            spec.architecture.name,
            num_classes=splits.num_classes,
            in_channels=splits.in_channels,
            image_size=splits.image_size,
            scale=spec.architecture.scale,
            **spec.architecture.options,
        )
    except InputError as error:
        raise FieldError("architecture", f"does not fit the data: {error}") from error


def _check_inputs(spec: RunSpec, splits: Splits) -> None:
    name = spec.architecture.name
    if not splits.is_images and name in ARCHITECTURES and name != _TAKES_ROWS:
        raise FieldError(
            "architecture.name",
            f"is {name!r}, which takes images. For rows of numbers use {_TAKES_ROWS!r}, or your "
            "own network.",
        )
    if splits.is_tokens and name == _TAKES_ROWS:
        raise FieldError(
            "architecture.name",
            f"is {name!r}, which does not take token ids. Use your own network, or count the "
            "tokens: set data.inputs = 'bag-of-words'.",
        )
    if splits.is_tokens and isinstance(spec.objective, MixupObjective):
        raise FieldError("objective.name", "is 'mixup', which does not work with token ids.")
