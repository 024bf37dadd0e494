"""PMV: the drop of training accuracy when more of the labels are random.

Zhang, Barr, Paisley et al., "Perturbed Model Validation", 2019, as Forouzesh, Sedghi and Thiran
(ICLR 2023) use it.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from rote.arguments import check_integer, check_number
from rote.errors import InputError
from rote.probe import (
    Inputs,
    LogitsAt,
    capture_logits,
    cross_entropy,
    evaluate_objective,
    predict_classes,
    unwrap,
)
from rote.records import Column
from rote.tracking import Batch, Signal, SignalContext

_CHUNK = 4096


class Pmv(Signal):
    """(training accuracy − that of a twin trained on labels of which more are random) / share.

    The twin is a second training beside the first, and costs as much: the same network from the
    same weights, the same batches, objective, optimizer and learning rates, but a share of the
    labels replaced by uniformly random ones. Gradients are not clipped, shaped or
    accumulated: it steps at every batch. Both accuracies
    are those of forward passes in training since the last reading. A network that fits what is in
    the data loses much; one that memorizes loses little.

    Args:
        share: how many of the labels are replaced.
        seed: of which, and by what.

    Raises:
        InputError: if the share is not above 0 and at most 1.
    """

    name = "pmv"
    columns = (
        Column("pmv", "drop of training accuracy", "signal", better="higher", rule="max:pmv"),
    )

    def __init__(self, share: float = 0.25, seed: int = 0) -> None:
        self._share = check_number("share", share, above=0, most=1)
        self._seed = check_integer("seed", seed)
        self._hits, self._twin_hits, self._count = 0, 0, 0
        self._chunks: list[tuple[Tensor, Tensor]] = []

    def start(self, context: SignalContext) -> None:
        """Make the twin.

        Raises:
            InputError: if the network cannot be copied.
        """
        self._context = context
        loss_fn = context.loss_fn or cross_entropy
        # One that remembers must not remember the twin.
        own = loss_fn if isinstance(loss_fn, nn.Module | LogitsAt) else None
        try:
            twin = deepcopy((unwrap(context.model), context.optimizer, own))
        except Exception as error:
            raise InputError(
                f"Signal `pmv` cannot copy the network and the optimizer: {type(error).__name__}: "
                f"{error}. Leave the signal out."
            ) from error
        self._model, self._optimizer, copied = twin
        self._loss_fn = loss_fn if copied is None else copied
        # What a scheduler has put there would step the original.
        vars(self._optimizer).pop("step", None)

    def observe(self, batch: Batch) -> None:
        """Train the twin on the batch.

        Raises:
            InputError: if the loop does not say what its samples are, or which, or a sample has not
                one class.
        """
        at = batch.places(self.name)
        if batch.inputs is None:
            raise InputError(
                "Signal `pmv` trains a second network on the training batches. Pass `inputs` to "
                "tracker.observe."
            )
        batch.check_rows(self.name)
        labels = self._perturb(at, batch.labels)
        pairs = zip(self._optimizer.param_groups, self._context.optimizer.param_groups, strict=True)
        for own, theirs in pairs:
            own.update({key: value for key, value in theirs.items() if key != "params"})
        self._model.train()
        self._optimizer.zero_grad(set_to_none=True)
        with torch.enable_grad():
            loss, logits = self._pass(batch.inputs, labels)
            loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._hits += _count_hits(batch.logits, batch.labels)
        self._twin_hits += _count_hits(logits, labels)
        self._count += len(labels)

    def _pass(self, inputs: Inputs, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the twin's loss, however it is called, and the logits of its first pass."""
        outputs: list[object] = []
        hook = self._model.register_forward_hook(lambda _, __, output: outputs.append(output))
        try:
            loss = evaluate_objective(self._loss_fn, self._model, inputs, labels)
        finally:
            hook.remove()
        if not outputs:
            raise InputError(
                "Signal `pmv` trains a second network, and `loss_fn` does not call the model "
                "that it is given. Leave the signal out."
            )
        return loss, capture_logits(self._loss_fn, outputs[0])

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the drop per share of labels, over the samples since the last reading."""
        if not self._count:
            return {}
        drop = (self._hits - self._twin_hits) / self._count / self._share
        self._hits = self._twin_hits = self._count = 0
        return {"pmv": drop}

    def state_dict(self) -> dict[str, Any]:
        """Return the twin with its objective, and the counts since the last reading."""
        return {
            "objective": {} if (found := self._objective()) is None else found.state_dict(),
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "counts": [self._hits, self._twin_hits, self._count],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        if (found := self._objective()) is not None:
            found.load_state_dict(state["objective"])
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(deepcopy(state["optimizer"]))
        self._hits, self._twin_hits, self._count = state["counts"]

    def _objective(self) -> nn.Module | None:
        """Return the objective, if it is one that may remember."""
        found = self._loss_fn
        found = found.loss_fn if isinstance(found, LogitsAt) else found
        return found if isinstance(found, nn.Module) else None

    def _perturb(self, at: Tensor, labels: Tensor) -> Tensor:
        """Return the twin's labels: the same for a sample, however many samples there are."""
        while len(self._chunks) * _CHUNK <= int(at.max()):
            self._chunks.append(self._chunk(len(self._chunks)))
        is_replaced, drawn = (torch.cat(part) for part in zip(*self._chunks, strict=True))
        places = at.cpu()
        chosen = is_replaced[places].to(labels.device) & (labels >= 0)
        return torch.where(chosen, drawn[places].to(labels), labels)

    def _chunk(self, number: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self._seed * 2**20 + number)
        drawn = torch.randint(self._context.num_classes, (_CHUNK,), generator=generator)
        return torch.rand(_CHUNK, generator=generator) < self._share, drawn


def _count_hits(logits: Tensor, labels: Tensor) -> int:
    return int((predict_classes(logits, labels.shape) == labels).sum())


SIGNAL = Pmv
