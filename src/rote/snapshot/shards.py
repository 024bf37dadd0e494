"""Modules whose parameters FSDP2 (``fully_shard``) shards over ranks, and its bookkeeping.

FSDP2 gathers whole parameters for a forward pass and may leave them so. It keeps flags, orders and
half-accumulated gradients in objects of its own, outside modules and parameters. Its classes are
recognized by name, so that nothing is imported for models without it.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn

from rote.snapshot.objects import ContainerCopies
from rote.snapshot.tensors import Gradients

_HOMES = ("torch.distributed.fsdp._fully_shard", "torch.distributed._composable.fsdp")


def find_sharded_modules(model: nn.Module) -> list[nn.Module]:
    """Return the modules that ``fully_shard`` was applied to, outer ones first."""
    return [module for module in model.modules() if hasattr(type(module), "_get_fsdp_state")]


def find_sharded_parameters(model: nn.Module) -> list[Tensor]:
    """Return the shards that the optimizer steps, also while modules hold whole parameters."""
    return [part.sharded_param for part in _list_parts(_find_states([model]))]


def find_whole_parameters(model: nn.Module) -> list[Tensor]:
    """Return the whole parameters, whose memory is freed and filled again by every pass."""
    parts = _list_parts(_find_states([model]))
    return [part._unsharded_param for part in _find_gathered(parts)]


def is_offloaded(model: nn.Module) -> bool:
    """Return whether shards are kept in the CPU's memory while the model computes elsewhere."""
    return any(part.offload_to_cpu for part in _list_parts(_find_states([model])))


class Shards:
    """FSDP2's own state of some modules; empty without FSDP2.

    Construction shards all parameters, so that the modules hold what the optimizer steps.

    Args:
        objects: any objects; the modules among them are examined.
    """

    def __init__(self, objects: Iterable[object]) -> None:
        models = [thing for thing in objects if isinstance(thing, nn.Module)]
        self._states = _find_states(models)
        self._groups = _list_groups(self._states)
        self._parts = _list_parts(self._states)
        self._bookkeeping = ContainerCopies()
        for container in _find_bookkeeping(self._states):
            self._bookkeeping.note(container)
        self._registries = ContainerCopies()
        for part in self._parts:
            for module in (part._module_info.module, *part._module_info.shared_modules):
                self._registries.note(module._parameters)
        self._gathered = [
            (memory, memory.clone())  # type: ignore[no-untyped-call]
            for memory in _find_filled_memory(self._parts)
        ]
        self._gradients = Gradients(part._unsharded_param for part in _find_gathered(self._parts))
        self.reshard()

    def set_aside(self) -> None:
        """Drop accumulated gradients; the next backward pass reduces its own."""
        self._gradients.set_aside()
        for part in self._parts:
            part.unsharded_accumulated_grad = None
        for group in self._groups:
            group._partial_reduce_output = None
            group.reduce_grads = group.all_reduce_grads = group.reshard_after_backward = True
        for state in self._states:
            state._state_ctx.is_last_backward = True

    def reshard(self) -> None:
        """Drop whole parameters, so that the next forward pass gathers them from the shards."""
        for state in self._states:
            state._training_state = type(state._training_state).IDLE
        for group in self._groups:
            # An exception may have ended a pass midway, or left gathered parameters unused.
            group._training_state = type(group._training_state).IDLE
            group.wait_for_unshard()
            group._to_sharded()

    def restore(self) -> None:
        """Restore everything, also whole parameters if there were any."""
        self._bookkeeping.restore()
        self._registries.restore()
        for memory, values in self._gathered:
            memory.resize_(values.nbytes())
            memory.copy_(values)
        self._gradients.restore()


def _find_states(models: list[nn.Module]) -> list[Any]:
    """Return FSDP2's state of each sharded module; its class is private."""
    modules = [module for model in models for module in find_sharded_modules(model)]
    states = [module._get_fsdp_state() for module in modules]  # type: ignore[operator]
    return list(dict.fromkeys(states))


def _list_groups(states: list[Any]) -> list[Any]:
    groups: list[Any] = []
    for state in states:
        several = getattr(state, "_fsdp_param_groups", None)
        groups += [state._fsdp_param_group] if several is None else several
    return [group for group in groups if group is not None]


def _list_parts(states: list[Any]) -> list[Any]:
    """Return FSDP2's records of single parameters."""
    return [part for group in _list_groups(states) for part in group.fsdp_params]


def _find_gathered(parts: list[Any]) -> list[Any]:
    """Return the parameters that some forward pass has gathered."""
    return [part for part in parts if hasattr(part, "_unsharded_param")]


def _find_filled_memory(parts: list[Any]) -> Iterator[torch.UntypedStorage]:
    """Yield the memory of whole parameters that is filled."""
    for part in parts:
        for tensor in (*part.all_gather_outputs, *part._unsharded_inner_tensors):
            memory = tensor.untyped_storage()
            if memory.size() > 0:
                yield memory


def _find_bookkeeping(states: list[Any]) -> Iterator[Any]:
    """Yield the attributes and containers that can be reached from FSDP2's states."""
    stack: list[Any] = list(states)
    seen = set()
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, nn.Module | Tensor | Enum | type):
            continue
        seen.add(id(item))
        if isinstance(item, dict | list | set):
            yield item
            stack.extend(item.values() if isinstance(item, dict) else item)
        elif type(item).__module__.startswith(_HOMES) and hasattr(item, "__dict__"):
            stack.append(vars(item))
