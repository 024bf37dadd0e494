"""A watch that notices between probes when another optimizer trains the model."""

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
    """A watch that notices when a loop steps another optimizer or has unfrozen layers.

    torch calls a hook after every step of its own optimizers. Other optimizers and compiled steps
    show only in torch's counts of writes to the weights and to the optimizer's state. If the two
    disagree, the watch searches the memory of the process for the optimizer that trains.

    Args:
        model: the network in training.
        optimizer: the tracked optimizer.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self._model = model
        self._optimizer = optimizer
        self._outside = {id(parameter) for parameter in self._find_unheld()}
        self._weights = _count_writes(find_parameters(optimizer))
        self._state = _summarize_state(optimizer)
        self._references = _count_fewest_references(optimizer)
        self._log = _StepLog()
        self._named: set[int] = set()

    def look(self) -> tuple[Optimizer, OptimizerWarning] | OptimizerWarning | None:
        """Check whether another optimizer has trained the model since the last call.

        Returns:
            The optimizer to follow and a warning; only a warning, if there is no optimizer to
            follow; or None, if nothing has changed.

        Raises:
            InputError: if several optimizers may be the one.
        """
        steps = self._log.find_alive()
        unheld = self._find_unheld()
        is_unfrozen = any(id(parameter) not in self._outside for parameter in unheld)
        is_idle = self._is_idle() and not any(id(m) in steps for m in list_members(self._optimizer))
        others = self._find_strangers(steps)
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

    def _find_unheld(self) -> list[Tensor]:
        held = {id(parameter) for parameter in find_parameters(self._optimizer)}
        return [parameter for parameter in self._find_trained() if id(parameter) not in held]

    def _find_trained(self) -> list[Tensor]:
        # A sharded model may hold whole parameters for a while, which no optimizer knows.
        parameters = find_sharded_parameters(self._model) or self._model.parameters()
        return [parameter for parameter in parameters if parameter.requires_grad]

    def _is_idle(self) -> bool:
        """Return whether the weights changed without the optimizer, or the loop has dropped it.

        Call this once per check: it compares with the last call.
        """
        weights, state = (
            _count_writes(find_parameters(self._optimizer)),
            _summarize_state(self._optimizer),
        )
        references = min(sys.getrefcount(member) for member in list_members(self._optimizer))
        # An optimizer without state shows no step; but a loop that builds another drops the old.
        is_let_go = references < self._references
        is_written = weights != self._weights
        is_idle = is_let_go if not is_written else state == self._state and bool(state or is_let_go)
        self._weights, self._state, self._references = weights, state, references
        return is_idle

    def _find_strangers(self, steps: Mapping[int, "_Steps"]) -> list[Optimizer]:
        """Return untracked optimizers that have stepped tracked or newly unfrozen weights."""
        tracked = {id(parameter) for parameter in self._find_trained()} - self._outside
        stepped = [optimizer for entry in steps.values() if (optimizer := entry.who()) is not None]
        return self._find_unrelated([other for other in stepped if tracked & _find_held(other)])

    def _search_twice(self) -> list[Optimizer]:
        """Return other optimizers in this process that hold trained weights of the model."""
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
        """Return those that are not tracked, and neither wrap a tracked one nor are inside it."""
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
        """Follow optimizers that replace or join the tracked ones; warn of those in between."""
        members = list_members(self._optimizer)
        held = {id(one): _find_held(one) for one in (*members, *others)}

        def overlaps(one: Optimizer, other: Optimizer) -> bool:
            return one is not other and bool(held[id(one)] & held[id(other)])

        def replaces(new: Optimizer, old: Optimizer) -> bool:
            if id(old) not in steps:
                return overlaps(new, old)
            is_later = steps[id(old)].last < steps[id(new)].first
            return overlaps(new, old) and is_later and held[id(old)] <= held[id(new)]

        rest = [old for old in (*members, *others) if not any(replaces(n, old) for n in others)]
        new = [other for other in rest if other not in members]
        if any(overlaps(one, other) for one in rest if one in members for other in new):
            return self._warn_of_others(new)
        if any(overlaps(one, other) for one in new for other in new):
            raise InputError(
                f"Several optimizers besides the tracked {_name_kinds(self._optimizer)} step the "
                f"same weights: {', '.join(map(_name_kinds, new))}. Say which one trains the model "
                "with tracker.follow_optimizer(new), or pass a list of all that are stepped."
            )
        return self._follow(rest, new)

    def _warn_of_others(self, others: list[Optimizer]) -> OptimizerWarning | None:
        unnamed = [_name_kinds(other) for other in others if id(other) not in self._named]
        self._named |= {id(other) for other in others}
        if not unnamed:
            return None
        return OptimizerWarning(
            f"Another optimizer ({' and '.join(unnamed)}) steps the weights between the steps of "
            f"the tracked {_name_kinds(self._optimizer)}, and the probe leaves its steps out. Call "
            "tracker.follow_optimizer([one, other]) to step them together, in that order."
        )

    def _follow(
        self, rest: list[Optimizer], new: list[Optimizer]
    ) -> tuple[Optimizer, OptimizerWarning]:
        names = " and ".join(map(_name_kinds, new))
        joint = rest[0] if len(rest) == 1 else JointOptimizer(rest)
        if len(rest) - len(new) < len(list_members(self._optimizer)):
            return joint, OptimizerWarning(
                f"Another optimizer ({names}) has taken over the weights of the tracked "
                f"{_name_kinds(self._optimizer)}. The probe follows it from now on. Call "
                "tracker.follow_optimizer(new) to avoid this warning."
            )
        return joint, OptimizerWarning(
            f"Another optimizer ({names}) trains weights that the tracked "
            f"{_name_kinds(self._optimizer)} does not hold. The probe steps both from now on. Call "
            "tracker.follow_optimizer([old, new]) to avoid this warning."
        )

    def _warn_of_unheld(self, count: int) -> OptimizerWarning:
        tracked = _name_kinds(self._optimizer)
        return OptimizerWarning(
            f"{count} parameters require gradients but are not held by {tracked}, "
            "some of them unfrozen since the last probe. The probe's step does not change them. "
            "Add them with optimizer.add_param_group, or call tracker.follow_optimizer(new)."
        )


@dataclass
class _Steps:
    """The first and last step of an optimizer, in the count of all steps."""

    who: "weakref.ref[Optimizer]"
    first: int
    last: int


class _StepLog:
    """The torch optimizers that have stepped in this process, by weak references."""

    def __init__(self) -> None:
        self._count = 0
        self._steps: dict[int, _Steps] = {}
        handle = register_optimizer_step_post_hook(_make_hook(weakref.ref(self)))
        weakref.finalize(self, handle.remove)

    def __reduce__(self) -> tuple[type["_StepLog"], tuple[()]]:
        return type(self), ()  # a copy starts empty

    def note(self, optimizer: Optimizer) -> None:
        """Record one more step."""
        self._count += 1
        entry = self._steps.get(id(optimizer))
        if entry is None or entry.who() is not optimizer:
            entry = _Steps(weakref.ref(optimizer), self._count, self._count)
            self._steps[id(optimizer)] = entry
        entry.last = self._count

    def find_alive(self) -> dict[int, _Steps]:
        """Return the steps of optimizers that still exist, by the optimizer's id."""
        steps = dict(self._steps)
        return {key: entry for key, entry in steps.items() if entry.who() is not None}

    def clear(self) -> None:
        """Forget all steps."""
        self._steps = {}


def _make_hook(log: "weakref.ref[_StepLog]") -> Callable[..., None]:
    def note(optimizer: Optimizer, *_: object) -> None:
        # In a compiled step the hook would run at compilation only.
        if not torch.compiler.is_compiling() and (found := log()) is not None:
            found.note(optimizer)

    return note


def _count_fewest_references(optimizer: Optimizer) -> int:
    """Return the least number of references to an optimizer that a loop still holds.

    They are: the loop; probe, signals and watch, or a joint optimizer; three of the count itself;
    and the optimizer's own method, if a schedule has replaced its step.
    """
    is_joint = isinstance(optimizer, JointOptimizer)
    replaced = [hasattr(m, "__dict__") and "step" in vars(m) for m in list_members(optimizer)]
    return (4 if is_joint else 7) + all(replaced)


def _name_kinds(optimizer: Optimizer) -> str:
    return " and ".join(type(member).__name__ for member in list_members(optimizer))


def _is_optimizer(kind: type) -> bool:
    """Return whether a class is an optimizer, of torch or like one."""
    known = {name for base in kind.__mro__ for name in vars(base)}
    return issubclass(kind, Optimizer) or {"step", "zero_grad"} <= known


def _find_held(optimizer: Any) -> set[int]:  # noqa: ANN401  # what looks like an optimizer
    groups = getattr(optimizer, "param_groups", ())
    if not (hasattr(optimizer, "state") and all("params" in group for group in groups)):
        return set()  # incomplete, or of another kind
    return {id(parameter) for parameter in find_parameters(optimizer)}


def _count_writes(tensors: Sequence[Tensor]) -> list[tuple[int, int]]:
    return [(id(tensor), 0 if tensor.is_inference() else tensor._version) for tensor in tensors]


def _summarize_state(optimizer: Optimizer) -> list[Any]:
    """Return what a step changes in the state, without reading tensors."""
    found: list[Any] = []
    for member in list_members(optimizer):
        for state in member.state.values():
            entries = state.values() if isinstance(state, dict) else [state]
            for entry in entries:
                found += (
                    _count_writes([entry])
                    if isinstance(entry, Tensor)
                    else [_summarize_entry(entry)]
                )
    return found


def _summarize_entry(entry: object) -> object:
    is_plain = isinstance(entry, int | float | str | bool | type(None))
    # Other objects may have changed unseen: a new object is equal to no earlier one.
    return entry if is_plain else object()
