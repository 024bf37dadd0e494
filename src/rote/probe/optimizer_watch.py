"""A watch over which optimizer trains the model, from probe to probe."""

import gc
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from rote.errors import InputError, OptimizerWarning
from rote.probe.compatibility import JointOptimizer, list_members, unwrap_optimizer
from rote.snapshot import find_parameters, find_reachable, find_sharded_parameters


class OptimizerWatch:
    """Notices, from probe to probe, that a loop steps another optimizer or has unfrozen layers.

    After every step of one of its optimizers torch calls a hook, which notes the optimizer. Of
    other optimizers (and of compiled steps) only torch's counts of writes to the weights and to the
    optimizer's state are known. If the two disagree, the memory of the process is searched for the
    optimizer that trains.

    Args:
        model: the network in training.
        optimizer: the one that is tracked.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self._model = model
        self._optimizer = optimizer
        self._outside = {id(parameter) for parameter in self._find_not_held()}
        self._weights = _writes(find_parameters(optimizer))
        self._state = _state_of(optimizer)
        self._references = _fewest_references(optimizer)
        self._log = _StepLog()
        self._named: set[int] = set()

    def look(self) -> tuple[Optimizer, OptimizerWarning] | OptimizerWarning | None:
        """Whether something else trains the model since the last look.

        Returns:
            The optimizer to follow and what to say about it; only the latter, if there is none; or
            nothing, if all is as it was.

        Raises:
            InputError: if several optimizers may be the one.
        """
        steps = self._log.find_alive()
        unheld = self._find_not_held()
        is_unfrozen = any(id(parameter) not in self._outside for parameter in unheld)
        is_idle = self._is_idle() and not any(id(m) in steps for m in list_members(self._optimizer))
        others = self._strangers(steps)
        self._outside = {id(parameter) for parameter in unheld}
        if not others and (is_unfrozen or is_idle):
            others = self._search_twice()
            steps = {id(other): _Steps(weakref.ref(other), 0, 0) for other in others}
        found: tuple[Optimizer, OptimizerWarning] | OptimizerWarning | None = None
        if others:
            found = self._resolve(others, steps)
        elif is_unfrozen:
            found = self._warn_of_unheld(len(unheld))
        self._log.clear()
        return found

    def _find_not_held(self) -> list[Tensor]:
        held = {id(parameter) for parameter in find_parameters(self._optimizer)}
        return [parameter for parameter in self._find_trained() if id(parameter) not in held]

    def _find_trained(self) -> list[Tensor]:
        # A sharded model may hold whole parameters for a while, which no optimizer knows.
        parameters = find_sharded_parameters(self._model) or self._model.parameters()
        return [parameter for parameter in parameters if parameter.requires_grad]

    def _is_idle(self) -> bool:
        """Whether the optimizer seems not to have done what was done to the weights, if anything.

        To be asked once per look.
        """
        weights, state = _writes(find_parameters(self._optimizer)), _state_of(self._optimizer)
        references = min(sys.getrefcount(member) for member in list_members(self._optimizer))
        # One without a state leaves no mark; but who builds another lets go of the old one.
        is_let_go = references < self._references
        is_written = weights != self._weights
        is_idle = is_let_go if not is_written else state == self._state and bool(state or is_let_go)
        self._weights, self._state, self._references = weights, state, references
        return is_idle

    def _strangers(self, steps: Mapping[int, "_Steps"]) -> list[Optimizer]:
        """Who has stepped, without being tracked, weights that are tracked or newly unfrozen."""
        tracked = {id(parameter) for parameter in self._find_trained()} - self._outside
        stepped = [optimizer for entry in steps.values() if (optimizer := entry.who()) is not None]
        return self._find_unrelated([other for other in stepped if tracked & _find_held(other)])

    def _search_twice(self) -> list[Optimizer]:
        """Other optimizers in this process that hold weights of the model which are trained."""
        if not self._search():
            return []
        gc.collect()  # drops optimizers that are no longer referenced
        return self._search()

    def _search(self) -> list[Optimizer]:
        own = {id(parameter) for parameter in self._find_trained()}
        kinds: dict[type, bool] = {JointOptimizer: False}
        found = []
        for thing in gc.get_objects():
            kind = type(thing)
            if kind not in kinds:
                kinds[kind] = _is_optimizer(kind)
            if kinds[kind] and own & _find_held(thing):
                found.append(thing)
        return self._find_unrelated(found)

    def _find_unrelated(self, found: Sequence[Optimizer]) -> list[Optimizer]:
        """Those that are neither tracked, nor wrapped around what is, nor inside of it."""
        members = {id(member) for member in list_members(self._optimizer)}
        bare = {id(other): other for other in map(unwrap_optimizer, found)}
        others = [other for other in bare.values() if id(other) not in members]
        inside = {id(thing) for thing in find_reachable([self._optimizer])} if others else set()
        return [
            other
            for other in others
            if id(other) not in inside
            and not any(id(part) in members for part in find_reachable([other]))
        ]

    def _resolve(
        self, others: list[Optimizer], steps: Mapping[int, "_Steps"]
    ) -> tuple[Optimizer, OptimizerWarning] | OptimizerWarning | None:
        """Follow those that took over or joined; of one that steps in between, only say so."""
        members = list_members(self._optimizer)
        held = {id(one): _find_held(one) for one in (*members, *others)}

        def clash(one: Optimizer, other: Optimizer) -> bool:
            return one is not other and bool(held[id(one)] & held[id(other)])

        def took_over(new: Optimizer, old: Optimizer) -> bool:
            if id(old) not in steps:
                return clash(new, old)
            is_later = steps[id(old)].last < steps[id(new)].first
            return clash(new, old) and is_later and held[id(old)] <= held[id(new)]

        rest = [old for old in (*members, *others) if not any(took_over(n, old) for n in others)]
        new = [other for other in rest if other not in members]
        if any(clash(one, other) for one in rest if one in members for other in new):
            return self._warn_of_others(new)
        if any(clash(one, other) for one in new for other in new):
            raise InputError(
                f"Several optimizers besides the tracked {_kind(self._optimizer)} step the same "
                f"weights: {', '.join(map(_kind, new))}. Say which one trains the model with "
                "tracker.follow_optimizer(new), or pass a list of all that are stepped."
            )
        return self._follow(rest, new)

    def _warn_of_others(self, others: list[Optimizer]) -> OptimizerWarning | None:
        unnamed = [_kind(other) for other in others if id(other) not in self._named]
        self._named |= {id(other) for other in others}
        if not unnamed:
            return None
        return OptimizerWarning(
            f"Another optimizer ({' and '.join(unnamed)}) steps the weights between the steps of "
            f"the tracked {_kind(self._optimizer)}, and the probe leaves its steps out. Call "
            "tracker.follow_optimizer([one, other]) to step them together, in that order."
        )

    def _follow(
        self, rest: list[Optimizer], new: list[Optimizer]
    ) -> tuple[Optimizer, OptimizerWarning]:
        names = " and ".join(map(_kind, new))
        joint = rest[0] if len(rest) == 1 else JointOptimizer(rest)
        if len(rest) - len(new) < len(list_members(self._optimizer)):
            return joint, OptimizerWarning(
                f"Another optimizer ({names}) has taken over the weights of the tracked "
                f"{_kind(self._optimizer)}. The probe follows it from now on. Call "
                "tracker.follow_optimizer(new) to avoid this warning."
            )
        return joint, OptimizerWarning(
            f"Another optimizer ({names}) trains weights that the tracked "
            f"{_kind(self._optimizer)} does not hold. The probe steps both from now on. Call "
            "tracker.follow_optimizer([old, new]) to avoid this warning."
        )

    def _warn_of_unheld(self, count: int) -> OptimizerWarning:
        return OptimizerWarning(
            f"{count} parameters require gradients but are not held by {_kind(self._optimizer)}, "
            "some of them unfrozen since the last probe. The probe's step does not change them. "
            "Add them with optimizer.add_param_group, or call tracker.follow_optimizer(new)."
        )


@dataclass
class _Steps:
    """When an optimizer has stepped, first and last, in the count of all steps."""

    who: "weakref.ref[Optimizer]"
    first: int
    last: int


class _StepLog:
    """Which optimizers have stepped, in this process and of torch's kind; none is kept alive."""

    def __init__(self) -> None:
        self._count = 0
        self._steps: dict[int, _Steps] = {}
        handle = register_optimizer_step_post_hook(_make_hook(weakref.ref(self)))
        weakref.finalize(self, handle.remove)

    def __reduce__(self) -> tuple[type["_StepLog"], tuple[()]]:
        return type(self), ()  # a copy starts empty

    def note(self, optimizer: Optimizer) -> None:
        """Note one more step."""
        self._count += 1
        entry = self._steps.get(id(optimizer))
        if entry is None or entry.who() is not optimizer:
            entry = _Steps(weakref.ref(optimizer), self._count, self._count)
            self._steps[id(optimizer)] = entry
        entry.last = self._count

    def find_alive(self) -> dict[int, _Steps]:
        """Return the steps of those that can step again, by the optimizer's id."""
        steps = dict(self._steps)
        return {key: entry for key, entry in steps.items() if entry.who() is not None}

    def clear(self) -> None:
        """Forget what has been looked at."""
        self._steps = {}


def _make_hook(log: "weakref.ref[_StepLog]") -> Callable[..., None]:
    def note(optimizer: Optimizer, *_: object) -> None:
        # A compiled step is left as it is: what it would note is noted at compilation only.
        if not torch.compiler.is_compiling() and (found := log()) is not None:
            found.note(optimizer)

    return note


def _fewest_references(optimizer: Optimizer) -> int:
    """How often an optimizer is referred to if a loop still holds it, at the least.

    By the loop; by probe, signals and watch, or by a joint optimizer; by the count itself, thrice;
    and by a method of its own, if a schedule has replaced its step.
    """
    is_joint = isinstance(optimizer, JointOptimizer)
    replaced = [hasattr(m, "__dict__") and "step" in vars(m) for m in list_members(optimizer)]
    return (4 if is_joint else 7) + all(replaced)


def _kind(optimizer: Optimizer) -> str:
    return " and ".join(type(member).__name__ for member in list_members(optimizer))


def _is_optimizer(kind: type) -> bool:
    """Whether objects of a class step parameters, of torch's kind or not."""
    known = {name for base in kind.__mro__ for name in vars(base)}
    return issubclass(kind, Optimizer) or {"step", "zero_grad"} <= known


def _find_held(optimizer: Any) -> set[int]:  # noqa: ANN401  # what looks like an optimizer
    groups = getattr(optimizer, "param_groups", ())
    if not (hasattr(optimizer, "state") and all("params" in group for group in groups)):
        return set()  # half built, or of another kind
    return {id(parameter) for parameter in find_parameters(optimizer)}


def _writes(tensors: Sequence[Tensor]) -> list[tuple[int, int]]:
    return [(id(tensor), 0 if tensor.is_inference() else tensor._version) for tensor in tensors]


def _state_of(optimizer: Optimizer) -> list[Any]:
    """Return what a step changes in the state, as far as it shows without reading tensors."""
    found: list[Any] = []
    for member in list_members(optimizer):
        for state in member.state.values():
            entries = state.values() if isinstance(state, dict) else [state]
            for entry in entries:
                found += _writes([entry]) if isinstance(entry, Tensor) else [_brief(entry)]
    return found


def _brief(entry: object) -> object:
    is_plain = isinstance(entry, int | float | str | bool | type(None))
    # What else an optimizer keeps may have changed unseen: it never counts as idle.
    return entry if is_plain else object()
