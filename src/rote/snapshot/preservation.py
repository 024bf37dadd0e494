"""Snapshots of training state, their restoration and its proof.

Signal handlers and other threads cannot disturb a block that ends with a restoration.
"""

import functools
import io
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import pairwise
from types import CellType, CoroutineType, FrameType, FunctionType, MethodType
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import ConcurrentProbeError, InputError, InterferenceError
from rote.snapshot.fingerprint import describe, find_differences, take_fingerprint
from rote.snapshot.objects import (
    ObjectState,
    find_parameters,
    find_reachable,
    get_package,
    is_inspectable,
    is_user_module,
)
from rote.snapshot.randomness import RandomState, make_restorer
from rote.snapshot.shards import Shards
from rote.snapshot.tensors import (
    FrozenTensors,
    Gradients,
    TensorValues,
    find_addresses,
    holds_quantized,
)

_ADVICE = "Call probe in the thread that trains, between two steps."
_GUARDED = ("step", "zero_grad")
_SIGNALS = sorted(signal.valid_signals())
_STREAMS = {id(stream) for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__)}
_HARMLESS = {
    *("_thread", "abc", "array", "builtins", "enum", "functools", "logging", "numpy", "operator"),
    *("re", "threading", "torch", "types", "typing", "weakref"),
}
"""Packages whose objects hold no state that a pass changes, or whose state is kept otherwise."""

Handler: TypeAlias = Callable[[int, FrameType | None], Any]


class Restorable(Protocol):
    """An object that holds a state and can restore it."""

    def restore(self) -> None:
        """Restore it."""


class Snapshot:
    """Everything that a forward pass, a backward pass and a step can change.

    Args:
        objects: modules, optimizers, scalers, functions.
        tensors: further tensors to keep, such as parameters that no module holds.
        spares_frozen: copy only parameters that can be trained. Watch the others, and buffers that
            hold quantized weights.
        written: ids of frozen tensors to copy all the same, since passes write to them.
        device: where to keep the copies of parameters; by default on their own device.
    """

    def __init__(
        self,
        *objects: object,
        tensors: tuple[Tensor, ...] = (),
        spares_frozen: bool = False,
        written: Collection[int] = (),
        device: str | None = None,
    ) -> None:
        self._objects = objects
        self.shards = Shards(objects)
        kept = _drop_duplicates([*_list_parameters(objects), *tensors])
        if spares_frozen:
            kept += [t for t in _list_quantized_buffers(objects) if id(t) not in written]
        self.contents = ObjectState(*objects, without=kept, spares_unchanged=True)
        # What shares memory with a parameter is restored with the parameters: a step must not be
        # undone through a second name.
        sharing = self.contents.sharing
        self.frozen = FrozenTensors(())
        frozen = [t for t in kept if spares_frozen and id(t) not in written and _is_frozen(t)]
        if frozen:
            self.frozen = FrozenTensors(frozen)
            kept = [tensor for tensor in kept if id(tensor) not in {id(t) for t in frozen}]
            trained = {place for tensor in kept for place in find_addresses(tensor)}
            sharing = [tensor for tensor in sharing if trained & find_addresses(tensor)]
        self.parameters = TensorValues([*kept, *sharing], device=device)
        self.gradients = Gradients(_drop_duplicates([*kept, *frozen, *self.contents.tensors]))
        self.randomness = RandomState()

    def set_aside(self) -> None:
        """Detach the gradients, so that a backward pass starts from none."""
        self.gradients.set_aside()
        self.shards.set_aside()

    def restore(self) -> None:
        """Restore everything. If one part fails, the others are still restored."""
        with ExitStack() as stack:
            # Last in, first out. Registries before values before gradients: a gradient must fit
            # the tensor it belongs to. Whole parameters of FSDP2 go first, and come back last.
            stack.callback(self.shards.restore)
            stack.callback(self.randomness.restore)
            stack.callback(self.gradients.restore)
            stack.callback(self._restore_frozen)
            stack.callback(self.parameters.restore)
            stack.callback(self.contents.restore)
            stack.callback(self.shards.reshard)

    def _restore_frozen(self) -> None:
        written = {id(tensor) for tensor in self.frozen.restore()}
        if written:
            models = [thing for thing in self._objects if isinstance(thing, nn.Module)]
            named = [
                pair
                for model in models
                for pair in (*model.named_parameters(), *model.named_buffers())
            ]
            names = [name for name, tensor in named if id(tensor) in written]
            raise InterferenceError(
                f"The probe could not restore frozen tensors: {', '.join(names)}. A forward "
                "pass wrote to them, which it had not done when tracking began. Call rote.track "
                "again, or let them require gradients."
            )


def _is_frozen(tensor: Tensor) -> bool:
    return not tensor.requires_grad and tensor.grad is None


class HeldSignals:
    """Signals that wait for the end of a block instead of running their Python handlers.

    A handler that raises would leave a half-restored network behind. Signals without a Python
    handler are not held: they end the process, or do nothing.
    """

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self._arrived: list[int] = []
        self._is_holding = True

    def hold(self) -> None:
        """Replace every Python handler by one that notes the signal."""
        for number in _SIGNALS:
            handler = _get_own_handler(number)
            if callable(handler):
                self.handlers[number] = handler
                signal.signal(number, self.receive)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note a signal that arrives in the block; after the block, run its own handler."""
        if self._is_holding:
            self._arrived.append(number)
        else:
            # Another handler raised before this one was restored.
            self.handlers[number](number, frame)

    def run_handlers(self) -> None:
        """Run the handler of every signal that has arrived, even if one of them raises."""
        arrived, self._arrived = self._arrived, []
        with ExitStack() as stack:
            for number in reversed(dict.fromkeys(arrived)):
                stack.callback(self.handlers[number], number, sys._getframe())

    def release(self) -> None:
        """Restore the handlers and run those of signals that have arrived."""
        self._is_holding = False
        try:
            self._restore_handlers()
        finally:
            self.run_handlers()

    def _restore_handlers(self) -> None:
        """Restore all handlers, also if those of signals that arrive meanwhile raise."""
        try:
            for number, handler in self.handlers.items():
                # The block may have installed a handler of its own.
                if signal.getsignal(number) == self.receive:
                    signal.signal(number, handler)
        except BaseException:
            self._restore_handlers()  # what is left
            raise


_holding: list[HeldSignals] = []
"""The block of the main thread that holds signals, in a list of at most one."""


@contextmanager
def hold_signals() -> Iterator[HeldSignals]:
    """Let a block finish before the Python handlers of signals that arrive during it run.

    Python runs signal handlers in the main thread only, so in other threads there is nothing to do.
    In nested blocks, signals wait for the end of the outer block.

    Yields:
        The signals, for blocks that run the handlers earlier.
    """
    held = HeldSignals()
    if _holding or threading.current_thread() is not threading.main_thread():
        yield held
        return
    try:
        held.hold()
        _holding.append(held)
        yield held
    finally:
        _holding.clear()
        try:
            held.release()
        finally:
            held.release()  # what is left if a signal's own handler raised in between


def _get_own_handler(number: int) -> Any:  # noqa: ANN401  # a function, or one of Python's constants
    handler = signal.getsignal(number)
    owner = getattr(handler, "__self__", None)
    return owner.handlers[number] if isinstance(owner, HeldSignals) else handler


class _Turn:
    """The thread whose turn it is to use an optimizer."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.is_guarding = False


_turns: dict[int, _Turn] = {}


@contextmanager
def exclude_other_threads(optimizer: Optimizer) -> Iterator[None]:
    """Allow only this thread to use an optimizer in a block; blocks may be nested.

    Raises:
        ConcurrentProbeError: if another thread is in such a block; and in another thread, if it
            steps the optimizer or clears its gradients meanwhile.
    """
    mine = _Turn()
    # One operation, so that two threads get the same turn.
    turn = _turns.setdefault(id(optimizer), mine)
    if not turn.thread.is_alive():
        turn = _turns[id(optimizer)] = mine
    if turn.thread is not mine.thread:
        raise ConcurrentProbeError(
            f"Thread {turn.thread.name!r} is probing this optimizer: there can be one probe of an "
            f"optimizer at a time. {_ADVICE}"
        )
    if turn.is_guarding:
        yield
        return
    attributes = getattr(optimizer, "__dict__", {})
    before = {name: attributes[name] for name in _GUARDED if name in attributes}
    try:
        turn.is_guarding = True
        for name in _GUARDED:
            if hasattr(optimizer, name):
                attributes[name] = _guard(getattr(optimizer, name), name, mine.thread)
        yield
    finally:
        for name in _GUARDED:
            attributes.pop(name, None)
        attributes.update(before)
        _turns.pop(id(optimizer), None)


def _guard(method: Callable[..., Any], name: str, owner: threading.Thread) -> Callable[..., Any]:
    @functools.wraps(method)
    def refuse_other_threads(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        thread = threading.current_thread()
        if thread is not owner:
            raise ConcurrentProbeError(
                f"optimizer.{name}() was called in thread {thread.name!r} while thread "
                f"{owner.name!r} probes the model. {_ADVICE}"
            )
        return method(*args, **kwargs)

    return refuse_other_threads


@contextmanager
def restore_after(state: Restorable) -> Iterator[None]:
    """Restore a state when the block ends, also after an error. Signals wait until then.

    Args:
        state: what to restore, such as a ``RandomState()`` of this moment; it has ``restore``.

    Example:
        >>> import torch
        >>> from rote.snapshot import RandomState
        >>> before = torch.random.get_rng_state()
        >>> with restore_after(RandomState()):
        ...     noise = torch.randn(3)
        >>> torch.equal(before, torch.random.get_rng_state())
        True
    """
    try:
        yield
    finally:
        is_restored = False
        try:
            with hold_signals():
                state.restore()
                is_restored = True
        finally:
            # A signal came just before signals were held. Restoring twice is harmless.
            if not is_restored:
                with hold_signals():
                    state.restore()


@contextmanager
def preserved(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    scaler: object | None = None,
    verify: bool = False,
) -> Iterator[None]:
    """Restore model, optimizer and random number generators when the block ends.

    Parameters, buffers, gradients, attributes, what functions hold, train/eval flags,
    ``requires_grad``, optimizer state and parameter groups, and the random states of Python, NumPy
    and torch are as before, bit for bit and in the same tensors, also after an exception or Ctrl-C.
    Inside the block the gradients are set aside: every ``.grad`` starts as ``None``.

    Args:
        model: the module to keep.
        optimizer: the optimizer to keep; its parameters need not belong to the model.
        scaler: a ``torch.amp.GradScaler`` to keep.
        verify: prove it by checksums taken before and after.

    Yields:
        Nothing.

    Raises:
        InputError: if ``model`` is no module.
        InterferenceError: with ``verify``, naming what could not be restored, for instance a
            position of an iterator.

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
    check = verify_unchanged(model, optimizer, scaler) if verify else nullcontext()
    snapshot = Snapshot(*objects)
    with check, restore_after(snapshot):
        snapshot.set_aside()
        yield


@contextmanager
def verify_unchanged(model: nn.Module, *others: object) -> Iterator[None]:
    """Prove by checksum that a block changed nothing, unless it was interrupted.

    Args:
        model: what the block must not change.
        others: further objects that it must not change, such as the optimizer.

    Raises:
        InterferenceError: naming everything that changed.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 2)
        >>> with verify_unchanged(model):
        ...     output = model(torch.ones(1, 2))
    """
    before = take_fingerprint(model, *others)
    try:
        yield
    except Exception:
        _raise_if_changed(before, take_fingerprint(model, *others))
        raise
    # Not after Ctrl-C: the interrupt must not be replaced by another error.
    _raise_if_changed(before, take_fingerprint(model, *others))


def _raise_if_changed(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    changed = find_differences(before, after)
    if changed:
        raise InterferenceError(
            f"The block changed training state that could not be restored: {', '.join(changed)}. "
            "Keep such state in parameters, buffers, attributes or containers of the model or "
            "the loss function."
        )


def _list_parameters(objects: tuple[object, ...]) -> list[Tensor]:
    """Return the parameters of modules and optimizers, each once."""
    tensors: list[Tensor] = []
    for thing in objects:
        if isinstance(thing, nn.Module):
            tensors.extend(thing.parameters())
        elif isinstance(thing, Optimizer):
            tensors.extend(find_parameters(thing))
    return _drop_duplicates(tensors)


def _list_quantized_buffers(objects: tuple[object, ...]) -> list[Tensor]:
    modules = [thing for thing in objects if isinstance(thing, nn.Module)]
    buffers = [buffer for module in modules for buffer in module.buffers()]
    return _drop_duplicates([buffer for buffer in buffers if holds_quantized(buffer)])


def _drop_duplicates(tensors: list[Tensor]) -> list[Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())


class Uncopied:
    """What cannot be restored, by the path that leads to it.

    Iterators, generator objects, files and foreign objects written in C cannot be restored. Foreign
    objects written in Python are mostly settings, and are compared before and after a trial.

    Args:
        roots: where to look, by name.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        parents: dict[int, object] = {}
        named = {id(root): name for name, root in roots.items()}
        self._hopeless: list[str] = []
        self._foreign: list[tuple[str, object, str]] = []
        for item in list(find_reachable([*roots.values()], parents)):
            if _cannot_be_copied(item):
                self._hopeless.append(_trace_path(item, parents, named))
            elif _is_foreign(item) and id(item) not in named:
                self._foreign.append((_trace_path(item, parents, named), item, describe(item)))

    def list_paths(self) -> list[str]:
        """Return the paths of what cannot be restored, or has changed by now."""
        return self._hopeless + [path for path, item, was in self._foreign if describe(item) != was]


def _cannot_be_copied(item: object) -> bool:
    kind = type(item)
    if isinstance(item, io.IOBase):
        return id(item) not in _STREAMS
    if is_inspectable(item) or make_restorer(item) is not None or isinstance(item, type | Tensor):
        return False
    if hasattr(kind, "__next__") or isinstance(item, CoroutineType):
        return True
    is_value = kind.__hash__ not in (None, object.__hash__)
    is_known = get_package(kind) in _HARMLESS or hasattr(item, "__array__")
    return not (is_value or is_known or callable(item) or kind.__dictoffset__)


def _is_foreign(item: object) -> bool:
    if isinstance(item, type | Tensor | nn.Module | Optimizer | np.ndarray | torch.Generator):
        return False
    return bool(type(item).__dictoffset__) and not (
        is_inspectable(item) or callable(item) or get_package(type(item)) in _HARMLESS
    )


def _trace_path(item: object, parents: Mapping[int, object], named: Mapping[int, str]) -> str:
    """Return the path to an item, such as ``loss_fn's closure `it` (list_iterator)``."""
    chain = [item]
    while id(chain[-1]) not in named and id(chain[-1]) in parents:
        chain.append(parents[id(chain[-1])])
    chain.reverse()
    path = named.get(id(chain[0]), "model")
    for place, (holder, held) in enumerate(pairwise(chain)):
        path += _name_link(holder, held, chain[place - 1] if place else None)
    return f"{path} ({type(item).__name__})"


def _name_link(holder: object, held: object, outer: object) -> str:
    if isinstance(holder, FunctionType):
        return _name_link_in_function(holder, held)
    if isinstance(holder, CellType | MethodType):
        return ""
    if isinstance(holder, functools.partial):
        return "" if held is not holder.func else ".func"
    if isinstance(holder, dict):
        key = next((key for key, value in holder.items() if value is held), "?")
        is_attributes = getattr(outer, "__dict__", None) is holder
        return f".{key}" if is_attributes else f"[{key!r}]"
    if isinstance(holder, list | tuple):
        return next((f"[{i}]" for i, value in enumerate(holder) if value is held), "")
    return _name_member(holder, held)


def _name_link_in_function(function: FunctionType, held: object) -> str:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        if cell is held:
            return f"'s closure `{name}`"
    if any(value is held for value in function.__defaults__ or ()):
        return "'s default argument"
    if held is function.__kwdefaults__:
        return "'s default arguments"
    names = [name for name, value in function.__globals__.items() if value is held]
    return f"'s global `{names[0]}`" if names else ""


def _name_member(holder: Any, held: object) -> str:  # noqa: ANN401
    """Return the name of an attribute of a class, or of a slot of an object."""
    kinds = holder.__mro__ if isinstance(holder, type) else type(holder).__mro__
    if held in kinds or held is getattr(holder, "__dict__", None):
        return ""
    for kind in kinds:
        for name, value in vars(kind).items() if is_user_module(kind.__module__) else ():
            is_slot = hasattr(value, "__get__") and getattr(holder, name, None) is held
            if value is held or is_slot:
                return f".{name}"
    return ""
