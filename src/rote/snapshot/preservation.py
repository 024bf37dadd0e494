"""The promise: whatever happens inside the block, training does not notice."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from types import FrameType
from typing import Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import InputError, InterferenceError
from rote.snapshot.fingerprint import differences, fingerprint
from rote.snapshot.objects import ObjectState, parameters_of
from rote.snapshot.randomness import RandomState
from rote.snapshot.shards import Shards
from rote.snapshot.tensors import Gradients, TensorValues


class Restorable(Protocol):
    """Anything that remembers how things were."""

    def restore(self) -> None:
        """Put them back."""


class Snapshot:
    """Everything that a forward pass, a backward pass and a step can change.

    Args:
        objects: modules, optimizers, scalers.
        tensors: further tensors to keep, such as parameters that no module holds.
    """

    def __init__(self, *objects: object, tensors: tuple[Tensor, ...] = ()) -> None:
        self.shards = Shards(objects)
        kept = _unique([*_registered(objects), *tensors])
        self.contents = ObjectState(*objects, without=kept, spares_unchanged=True)
        # What shares memory with a parameter is put back with the parameters: a step must not be
        # undone through a second name.
        self.parameters = TensorValues([*kept, *self.contents.sharing])
        self.gradients = Gradients(_unique([*kept, *self.contents.tensors]))
        self.randomness = RandomState()

    def set_aside(self) -> None:
        """Take the gradients off, so that a backward pass starts from none."""
        self.gradients.set_aside()
        self.shards.set_aside()

    def restore(self) -> None:
        """Put everything back; if one part fails, the others are put back all the same."""
        with ExitStack() as stack:
            # Last in, first out. Registries before values before gradients: a gradient must fit
            # the tensor it is put on. Whole parameters of FSDP2 go before all, and come back after.
            stack.callback(self.shards.restore)
            stack.callback(self.randomness.restore)
            stack.callback(self.gradients.restore)
            stack.callback(self.parameters.restore)
            stack.callback(self.contents.restore)
            stack.callback(self.shards.reshard)


@contextmanager
def restored(state: Restorable) -> Iterator[None]:
    """Restore a state when the block ends, however it ends."""
    try:
        yield
    finally:
        try:
            with delayed_interrupts():
                state.restore()
        except KeyboardInterrupt:
            # It came just before interrupts were held back. Restoring twice does no harm.
            with delayed_interrupts():
                state.restore()
            raise


@contextmanager
def delayed_interrupts() -> Iterator[None]:
    """Let the block finish before an interrupt that arrives during it is acted on.

    Python runs signal handlers in the main thread only, so in other threads there is nothing to do.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[-1])


@contextmanager
def preserved(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    scaler: object | None = None,
    verify: bool = False,
) -> Iterator[None]:
    """Put model, optimizer and random number generators back when the block ends.

    Parameters, buffers, gradients, plain attributes, train/eval flags, ``requires_grad``, optimizer
    state and parameter groups, and the random states of Python, NumPy and torch are as before,
    bit for bit and in the same tensors, also after an exception or Ctrl-C. Inside the block the
    gradients are set aside: every ``.grad`` starts as ``None``.

    Args:
        model: the module to keep.
        optimizer: the optimizer to keep; its parameters need not belong to the model.
        scaler: a ``torch.amp.GradScaler`` to keep.
        verify: prove it by checksums taken before and after.

    Yields:
        Nothing.

    Raises:
        InputError: if ``model`` is no module.
        InterferenceError: with ``verify``, naming what could not be put back, for instance a
            counter inside an object that rote does not know.

    Example:
        >>> import torch, rote
        >>> model = torch.nn.Linear(2, 1)
        >>> weight = model.weight.clone()
        >>> with rote.preserved(model):
        ...     _ = model.weight.data.zero_()
        >>> bool((model.weight == weight).all())
        True
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected `model` to be a torch.nn.Module, got {type(model).__name__}.")
    objects = [thing for thing in (model, optimizer, scaler) if thing is not None]
    check = verified(model, optimizer, scaler) if verify else nullcontext()
    snapshot = Snapshot(*objects)
    with check, restored(snapshot):
        snapshot.set_aside()
        yield


@contextmanager
def verified(model: nn.Module, *others: object) -> Iterator[None]:
    """Prove by checksum that a block left no trace, unless it was interrupted.

    Raises:
        InterferenceError: naming everything that changed.
    """
    before = fingerprint(model, *others)
    try:
        yield
    except Exception:
        _compare(before, fingerprint(model, *others))
        raise
    # Ctrl-C and its like pass: who wants the process to end must not get another error instead.
    _compare(before, fingerprint(model, *others))


def _compare(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    changed = differences(before, after)
    if changed:
        raise InterferenceError(
            f"Expected training state to be as before, got changes in: {', '.join(changed)}. "
            "Keep such state in parameters, buffers or plain attributes, where it can be put back."
        )


def _registered(objects: tuple[object, ...]) -> list[Tensor]:
    """Parameters of modules and optimizers, each once."""
    tensors: list[Tensor] = []
    for thing in objects:
        if isinstance(thing, nn.Module):
            tensors.extend(thing.parameters())
        elif isinstance(thing, Optimizer):
            tensors.extend(parameters_of(thing))
    return _unique(tensors)


def _unique(tensors: list[Tensor]) -> list[Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())
