"""What a network took and returned in a training step, for signals that look at batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from rote.probe import logits_of


@dataclass(frozen=True)
class ForwardCall:
    """One call of a network in train mode.

    Attributes:
        arguments: the positional ones.
        keywords: the others.
        logits: a copy of what it returned, if it says which they are.
        loss: a copy of the loss, if it returned one.
    """

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    logits: Tensor | None
    loss: Tensor | None

    @property
    def inputs(self) -> Any:  # noqa: ANN401  # whatever the network takes
        """What it took, as ``rote.track`` takes inputs."""
        if self.arguments:
            return self.arguments[0] if len(self.arguments) == 1 else self.arguments
        return self.keywords

    def took_from(self, batch: object) -> bool:
        """Whether a tensor of a batch went in as it is."""
        parts = batch.values() if isinstance(batch, Mapping) else batch
        own = {id(part) for part in parts if isinstance(part, Tensor)}  # type: ignore[attr-defined]
        return any(id(value) in own for value in (*self.arguments, *self.keywords.values()))


class ForwardCalls:
    """Writes down the calls of a network between ``listen`` and ``take``, and only there.

    The hook is on the network during training steps alone: probes, evaluations, copies and pickles
    of the network never meet it.
    """

    def __init__(self) -> None:
        self._calls: list[ForwardCall] = []
        self._hook: RemovableHandle | None = None

    def listen(self, network: nn.Module) -> None:
        """Begin."""
        self.take()
        calls = self._calls

        def note(
            module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], output: object
        ) -> None:
            if module is network and module.training:
                loss = output.get("loss") if isinstance(output, Mapping) else None
                calls.append(
                    ForwardCall(arguments, keywords, _copy(logits_of(output)), _copy(loss))
                )

        self._hook = network.register_forward_hook(note, with_kwargs=True)

    def take(self) -> list[ForwardCall]:
        """End, and hand over the calls since ``listen``."""
        if self._hook is not None:
            self._hook.remove()
        self._hook, found, self._calls = None, self._calls, []
        return found


def call_on(batch: object, calls: list[ForwardCall], samples: int) -> ForwardCall | None:
    """The call whose logits belong to the samples of a batch, if it is clear which that is."""
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
