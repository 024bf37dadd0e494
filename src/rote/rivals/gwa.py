"""GWA: the alignment of the last layer's gradients with its weights.

Hölzl, Rueckert and Kaissis, "Gradient-Weight Alignment as a Train-Time Proxy for Generalization in
Classification Tasks", NeurIPS 2025.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm

from rote.errors import InputError, TrialError
from rote.probe import call, capture_logits, move_inputs, unwrap
from rote.records import Column
from rote.snapshot import preserved
from rote.tracking import Batch, Signal, SignalContext, WaitingBatches

_SHIFT = 1.2  # the excess kurtosis of a uniform distribution is −1.2
_TINY = 1e-12
_PASSES = 4


class Gwa(Signal):
    """mean(a) / (excess kurtosis of a + 1.2), over the alignments a of an epoch's samples.

    a = −⟨δzᵀ, W⟩ / (‖δ‖ ‖z‖ ‖W‖) is the cosine between a sample's negative gradient and the
    weights W of the linear head, where z is the input of the head and δ = softmax(logits) − onehot.
    All are those of the training's own forward pass; the authors' script takes W after the step.
    Nothing is read where the alignments are all the same. Where they lie in two heaps, as right and
    wrong labels may, the denominator can be near zero or negative, and GWA means nothing:
    ``gwa_alignment`` is their mean alone.
    """

    name = "gwa"
    draws = False
    columns = (
        Column("gwa", "gradient-weight alignment", "signal", better="higher", rule="max:gwa"),
        Column("gwa_alignment", "mean gradient-weight alignment", better="higher"),
    )

    def __init__(self) -> None:
        self._alignments: list[Tensor] = []
        self._waiting = WaitingBatches()
        self._heard: list[tuple[Tensor, Tensor]] = []
        self._tap = _Tap()

    def start(self, context: SignalContext) -> None:
        """Find the head, and record its outputs.

        Raises:
            InputError: if the network does not end in a linear layer.
        """
        find_head(context).register_forward_hook(self._tap)

    def observe(self, batch: Batch) -> None:
        """Record the alignment of every sample.

        Raises:
            InputError: if the logits are not those of the last forward pass.
        """
        batch.check_rows(self.name)
        self._heard.append(self._tap.take(batch.logits))
        if self._waiting.add(batch):
            self._align()

    def _align(self) -> None:
        """Return the alignments of the recorded samples."""
        waiting = self._waiting.take()
        if waiting is None:
            return
        weighted, norms = map(torch.cat, zip(*self._heard, strict=True))
        self._heard = []
        batch = waiting.counted
        if batch is not waiting:
            counted = waiting.labels >= 0
            weighted, norms = weighted[counted], norms[counted]
        shares, places = batch.shares, batch.labels[:, None]
        delta = shares.scatter_add(1, places, shares.new_full(places.shape, -1))
        # z · (δ W) = δ · (W z), and W z are the logits without the bias.
        dots = -(delta * weighted).sum(-1)
        self._alignments.append(dots / (norms * vector_norm(delta, dim=-1) + _TINY))

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """GWA of the samples since the last reading."""
        self._align()
        if not self._alignments:
            return {}
        alignments = torch.cat(self._alignments).double()
        self._alignments = []
        value = compute_alignment(alignments)
        mean = {"gwa_alignment": float(alignments.mean())}
        return mean if value is None else {"gwa": value, **mean}

    def state_dict(self) -> dict[str, Any]:
        """Return the alignments since the last reading."""
        self._align()
        return {"alignments": torch.cat([torch.empty(0), *(a.cpu() for a in self._alignments)])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._waiting.clear()
        self._heard = []
        found = state["alignments"].clone()
        self._alignments = [found] if len(found) else []


def compute_alignment(alignments: Tensor) -> float | None:
    """GWA of one epoch, if it is defined."""
    centered = alignments - alignments.mean()
    variance = float((centered**2).mean())
    if not variance > 0:
        return None
    below = float((centered**4).mean()) / variance**2 - 3 + _SHIFT
    return float(alignments.mean()) / below if below else None


def find_head(context: SignalContext) -> nn.Linear:
    """Return the linear layer whose output is the network's, found by a trial pass.

    Raises:
        InputError: if there is none, or the network does not take the inputs.
    """
    network = unwrap(context.model)
    linear = [
        module
        for module in network.modules()
        if isinstance(module, nn.Linear) and module.out_features == context.num_classes
    ]
    said: dict[nn.Module, Tensor] = {}
    # Inside the block, so that what a hook has recorded is restored as well.
    with preserved(network), torch.no_grad():
        for module in linear:
            module.register_forward_hook(lambda m, _, output: said.update({m: output}))
        logits = _compute_logits(network.eval(), context)
        for module in linear:
            if module in said and _are_equal(said[module], logits):
                return module
    last = type(list(network.modules())[-1]).__name__
    raise InputError(
        "Signal `gwa` needs a network whose logits come out of a torch.nn.Linear, and the last "
        f"layer of this one is {last}. Leave `gwa` out."
    )


def _compute_logits(network: nn.Module, context: SignalContext) -> Tensor:
    device = next(network.parameters()).device
    try:
        output = call(network, move_inputs(context.inputs, device))
    except Exception as error:
        raise TrialError(
            f"`model` failed on `inputs` in a trial for signal `gwa`: {type(error).__name__}: "
            f"{error}"
        ) from error
    return capture_logits(context.loss_fn, output)


class _Tap:
    """A hook that records the head's outputs in train mode; copies start empty."""

    def __init__(self) -> None:
        # Several, since a training step may call the network more than once.
        self._heard: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=_PASSES)

    def __call__(self, head: nn.Linear, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if not head.training:
            return
        logits, bias = output.detach(), head.bias
        weighted = logits.float().clone() if bias is None else logits.float() - bias.detach()
        norms = vector_norm(inputs[0].detach().float(), dim=-1) * vector_norm(head.weight.detach())
        self._heard.append((logits, weighted, norms))

    def __reduce__(self) -> tuple[type["_Tap"], tuple[()]]:
        return _Tap, ()

    def take(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """W z and ‖z‖ ‖W‖ of every row."""
        fitting = [heard for heard in self._heard if _are_equal(heard[0], logits)]
        self._heard.clear()
        if not fitting:
            raise InputError(
                "Signal `gwa` needs the `logits` of the last forward pass in train mode, and "
                "tracker.observe got others. Call it after every batch."
            )
        _, weighted, norms = fitting[-1]
        return weighted.flatten(0, -2), norms.flatten()


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.float(), other.float())


SIGNAL = Gwa
