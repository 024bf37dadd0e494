"""Recording of training's forward passes for signals that observe batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from rote.errors import InputError
from rote.integrations.messages import list_names, warn
from rote.integrations.training_batch import find_indices, find_labels
from rote.probe import find_logits
from rote.tracking import Signal, Tracker


@dataclass(frozen=True)
class ForwardCall:
    """One call of a network in train mode; tensors of its output are copies.

    Attributes:
        arguments: What it was called with.
        keywords: What it was called with, by name.
        logits: The logits, if the output has any.
        loss: The loss, if the output has one.
        token_losses: One loss per token, if a fused head returns them instead of logits.
        token_mask: Which of the tokens have a label.
    """

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    logits: Tensor | None
    loss: Tensor | None
    token_losses: Tensor | None = None
    token_mask: Tensor | None = None

    @property
    def inputs(self) -> Any:
        """The arguments, as ``rote.track`` takes inputs."""
        if self.arguments:
            return self.arguments[0] if len(self.arguments) == 1 else self.arguments
        return self.keywords

    def took_from(self, batch: Any) -> bool:
        """Return whether a tensor of a batch is an argument of the call."""
        parts = batch.values() if isinstance(batch, Mapping) else batch
        own = {id(part) for part in parts if isinstance(part, Tensor)}
        return any(id(value) in own for value in (*self.arguments, *self.keywords.values()))


class TrainingSignals:
    """Record a network's calls between ``listen`` and ``take``, and show batches to signals.

    The hook is on the network only there: probes, evaluations, copies and pickles never see it.

    Args:
        tracker: The tracker whose signals look at batches.
    """

    def __init__(self, tracker: Tracker | None = None) -> None:
        signals: Iterable[Signal] = () if tracker is None else tracker.signals
        self._tracker = tracker
        seeing = [s for s in signals if type(s).observe is not Signal.observe]
        self._names = [signal.name for signal in seeing]
        self._by_loss = [s for s in seeing if type(s).observe_losses is not Signal.observe_losses]
        self._has_warned = False
        self._calls: list[ForwardCall] = []
        self._hook: RemovableHandle | None = None

    def __bool__(self) -> bool:
        """Return whether any signal observes batches."""
        return bool(self._names)

    @property
    def ranks_samples(self) -> bool:
        """Return whether any signal adds up the losses of single samples."""
        return bool(self._by_loss)

    def listen(self, network: nn.Module) -> None:
        """Start to record the calls of a network."""
        self.take()
        calls = self._calls

        def note(
            module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], output: object
        ) -> None:
            if module is network and module.training:
                named = output if isinstance(output, Mapping) else {}
                found = find_logits(output), named.get("loss")
                fused = named.get("log_probs"), named.get("label_mask")  # of TRL's fused head
                copies = [_copy(tensor) for tensor in (*found, *fused)]
                if copies[2] is not None:
                    copies[2] = -copies[2]
                calls.append(ForwardCall(arguments, keywords, *copies))

        self._hook = network.register_forward_hook(note, with_kwargs=True)

    def take(self) -> list[ForwardCall]:
        """Stop recording, and return the calls since ``listen``."""
        if self._hook is not None:
            self._hook.remove()
        self._hook, found, self._calls = None, self._calls, []
        return found

    def show(self, batch: Any, logits: Tensor | None = None, loss: Tensor | None = None) -> None:
        """Pass a batch to the signals, with the logits of its forward pass if it has none."""
        if not self:
            return
        labels, calls = find_labels(batch), self.take()
        call = None if labels is None else _find_call(batch, calls, len(labels))
        if logits is None and call is not None:
            logits = call.logits
        inputs = None if call is None else call.inputs
        self.observe(labels, logits, inputs=inputs, indices=find_indices(batch), loss=loss)

    def observe(
        self,
        labels: Tensor | None,
        logits: Tensor | None,
        losses: Tensor | None = None,
        **rest: Any,
    ) -> None:
        """Pass a batch to ``Tracker.observe``; warn once if labels or logits are missing.

        Args:
            labels: The given labels.
            logits: The logits, if there are any.
            losses: One loss per sample, for signals that can do without logits.
            rest: Further arguments of ``Tracker.observe``.

        Raises:
            InputError: If the batch lacks something that a signal needs.
        """
        if self._tracker is None or not self._names:
            return
        if labels is None or logits is None:
            names = self._names
            if losses is not None and rest["indices"] is not None:
                for signal in self._by_loss:
                    signal.observe_losses(losses, rest["indices"])
                names = [name for name in names if name not in {s.name for s in self._by_loss}]
            if names and not self._has_warned:
                self._has_warned = True
                missing = "labels" if labels is None else "logits"
                warn(
                    f"The signals {list_names(names)} need labels and logits of training batches. "
                    f"Batches without {missing} are not observed. The callback's docstring says "
                    "where it looks for both."
                )
            return
        try:
            self._tracker.observe(labels=labels, logits=logits, **rest)
        except InputError as error:
            if rest["indices"] is not None:
                raise
            raise InputError(
                f"{error} Indices are looked for in batches that are mappings, under `index`, "
                "`indices` or `idx`."
            ) from error


def _find_call(batch: object, calls: list[ForwardCall], samples: int) -> ForwardCall | None:
    """Return the call whose logits belong to a batch, if that is unambiguous."""
    fitting = [
        call
        for call in calls
        if call.logits is not None and call.logits.dim() > 1 and len(call.logits) == samples
    ]
    # The first of several: some optimizers call the network again.
    direct = [call for call in fitting if call.took_from(batch)]
    return direct[0] if direct else fitting[0] if len(fitting) == 1 else None


def _copy(value: object) -> Tensor | None:
    return value.detach().clone() if isinstance(value, Tensor) else None
