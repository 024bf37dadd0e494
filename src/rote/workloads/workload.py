"""A run in memory: network, optimizer, objective and data; it trains and measures an epoch."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from rote.probe import PlainStep, ProbePolicy
from rote.tracking import Signal, Tracker
from rote.workloads.data.splits import Splits
from rote.workloads.devices import precision
from rote.workloads.evaluation import CrossEntropyDrop, Evaluation
from rote.workloads.network import make_network
from rote.workloads.objectives import make_objective
from rote.workloads.optimizer import learning_rate, make_optimizer, set_learning_rate
from rote.workloads.randomness import seed_of, torch_generator
from rote.workloads.spec import RunSpec


class Workload:
    """What is needed to train one epoch after another.

    Every epoch draws from generators of its own, named after its number: to go on after an
    interruption, weights and optimizer are all that has to be put back.

    Attributes:
        spec: the run.
        splits: its data.
        model: the network.
        optimizer: its optimizer.
        objective: what is minimized.

    Args:
        spec: the run.
        splits: its data.
        device: where it trains.
    """

    def __init__(self, spec: RunSpec, splits: Splits, device: torch.device) -> None:
        self.spec = spec
        self.splits = splits
        self.objective = make_objective(spec, splits.num_classes)
        self.model = make_network(spec, splits, device)
        self.optimizer = make_optimizer(spec.optimizer, self.model.parameters())
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
        """The precision of forward passes."""
        return precision(self._device, bf16=self.spec.bf16)

    def train_epoch(self, epoch: int, tracker: Tracker | None = None) -> dict[str, float]:
        """Train on every sample once.

        Args:
            epoch: its number, from 1.
            tracker: whose signals are shown the batches; not those that Mixup mixed.

        Returns:
            The learning rate and the mean training loss.
        """
        lr = learning_rate(self.spec, epoch)
        set_learning_rate(self.optimizer, lr)
        torch.manual_seed(seed_of(self.spec.seed, "layers", epoch))  # dropout
        self.objective.start_epoch(epoch)
        augment = torch_generator(self.spec.seed, "augmentation", epoch)
        total = torch.zeros((), device=self._device)
        for chosen in self._batches(epoch):
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
        """What is measured beside ζ: accuracies, extra drops, and what the spec names."""
        found: list[str | Signal] = [Evaluation(self.model, self.splits, self.precision)]
        if self.objective.is_robust:
            found.append(CrossEntropyDrop(self.precision))
        return [*found, *self.spec.signals]

    def state_dict(self) -> dict[str, Any]:
        """Weights and optimizer."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
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

    def _batches(self, epoch: int) -> list[Tensor]:
        """Every sample once, in random order; no batch of one, which batch norm cannot take."""
        generator = torch_generator(self.spec.seed, "order", epoch)
        order = torch.randperm(len(self.splits.train), generator=generator).to(self._device)
        batches = list(torch.split(order, self.spec.batch))
        if len(batches) > 1 and len(batches[-1]) == 1:
            single = batches.pop()
            batches[-1] = torch.cat([batches[-1], single])
        return batches
