"""Which models and optimizers can be probed, and the modules and optimizers inside wrappers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from rote.errors import InputError
from rote.probe.ranks import count_ranks
from rote.snapshot import (
    find_parameters,
    find_sharded_modules,
    find_sharded_parameters,
    is_offloaded,
)

_ADVICE = "Train with DistributedDataParallel or torch.distributed.fsdp.fully_shard instead."

_UNKNOWN = {
    "deepspeed": "DeepSpeed",
    "accelerate.utils.deepspeed": "DeepSpeed",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "FSDP1 (FullyShardedDataParallel)",
    "torch.distributed.pipelining": "pipeline parallelism",
    "torch.distributed.optim": "an optimizer that is itself distributed",
    "fairscale": "FairScale",
    "megatron": "Megatron",
    "colossalai": "Colossal-AI",
    "horovod": "Horovod",
}
"""Modules of classes that keep parameters or gradients in ways that rote cannot restore."""

_OPACUS = (
    "rote cannot probe {what}: Opacus clips the gradient of every sample, adds noise and counts "
    "steps, so that a probe would spend privacy or measure another step. Copy the weights into a "
    "bare network of the same kind at every epoch, and track that with a plain optimizer."
)

_WRAPPERS = {
    "accelerate.optimizer",
    "lightning.fabric.wrappers",
    "lightning.pytorch.core.optimizer",
    "lightning_fabric.wrappers",
    "pytorch_lightning.core.optimizer",
}
"""Modules of optimizer classes that forward steps to the optimizer inside them."""

Optimizers: TypeAlias = Optimizer | Sequence[Optimizer]
"""One optimizer, or several that are stepped together."""


class JointOptimizer(Optimizer):
    """Several optimizers that train one model together, stepped in their order.

    Muon, for instance, needs a second optimizer. Groups and state are those of the members.

    Args:
        members: torch optimizers.
    """

    def __init__(self, members: Sequence[Optimizer]) -> None:
        self.members = tuple(members)  # super().__init__ would make new groups

    def __getstate__(self) -> dict[str, Any]:
        return {"members": self.members}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.members = state["members"]

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of all members."""
        return [group for member in self.members for group in member.param_groups]

    @property
    def state(self) -> dict[Any, Any]:  # type: ignore[override]
        """The state of all members, by parameter."""
        return {key: value for member in self.members for key, value in member.state.items()}

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The settings of all members, by class and name."""
        named = [
            (type(member).__name__, getattr(member, "defaults", {})) for member in self.members
        ]
        return {f"{kind}.{name}": v for kind, found in named for name, v in found.items()}

    def step(self, closure: Callable[[], Tensor] | None = None) -> None:  # type: ignore[override]
        """Step every member."""
        for member in self.members:
            member.step() if closure is None else member.step(closure)  # type: ignore[arg-type]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of every member."""
        for member in self.members:
            member.zero_grad(set_to_none=set_to_none)


def list_members(optimizer: Optimizer) -> tuple[Optimizer, ...]:
    """Return the members of a joint optimizer, or the optimizer itself."""
    return optimizer.members if isinstance(optimizer, JointOptimizer) else (optimizer,)


def unwrap(model: nn.Module) -> nn.Module:
    """Return the module inside the wrappers of torch.compile, DataParallel and DDP."""
    inner = getattr(model, "_orig_mod", None)
    if isinstance(inner, nn.Module):
        return unwrap(inner)
    if isinstance(model, DataParallel | DistributedDataParallel):
        return unwrap(model.module)
    return model


def unwrap_optimizer(optimizer: Optimizers) -> Optimizer:
    """Return the torch optimizer inside the wrapper of a trainer, or the optimizer itself.

    Accelerate's wrapper steps only where gradients are synchronized; the probe must always step.
    Several optimizers become one, which steps them all.
    """
    if isinstance(optimizer, tuple | list):
        bare = [unwrap_optimizer(one) for one in optimizer]
        return bare[0] if len(bare) == 1 else JointOptimizer(bare)
    assert not isinstance(optimizer, Sequence)
    is_wrapper = any(kind.__module__ in _WRAPPERS for kind in type(optimizer).__mro__)
    # Lightning's wrappers keep it under another name and forward other attributes.
    inside = getattr(optimizer, "__dict__", {})
    inner = inside.get("optimizer", inside.get("_optimizer"))
    return inner if is_wrapper and isinstance(inner, Optimizer) else optimizer


def communicates(model: nn.Module) -> bool:
    """Return whether the ranks wait for each other within a forward pass."""
    if count_ranks() == 1:
        return False
    is_synced = any(isinstance(module, nn.SyncBatchNorm) for module in model.modules())
    return is_synced or bool(find_sharded_modules(model))


def check_model_and_optimizer(model: nn.Module, optimizer: Optimizers) -> None:
    """Refuse a model and optimizer that cannot be probed.

    Raises:
        InputError: if they cannot be probed; the message says why.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected `model` to be a torch.nn.Module, got {type(model).__name__}.")
    several: list[Any] = list(optimizer) if isinstance(optimizer, tuple | list) else [optimizer]
    for one in several:
        if not all(hasattr(one, name) for name in ("param_groups", "state", "step")):
            raise InputError(
                "Expected `optimizer` to be a torch optimizer (param_groups, state, step) or a "
                f"list of those that are stepped together, got {type(one).__name__}."
            )
        _check_parallelism(model, one)
    if len({id(one) for one in several}) != max(len(several), 1):
        raise InputError(
            "Expected `optimizer` to be a list of different optimizers, each once, got "
            f"{len(several)}. Name every optimizer that the loop steps, in its order."
        )
    parameters = [*model.parameters(), *find_sharded_parameters(model)]
    _check_parameters(parameters)
    _check_ownership([p for one in several for p in find_parameters(one)], parameters)


def _check_parameters(parameters: list[Tensor]) -> None:
    if any(is_lazy(parameter) for parameter in parameters):
        raise InputError(
            "`model` has lazy layers without weights. Run one forward pass before you track it."
        )
    if any(p.requires_grad and p.device.type == "meta" for p in parameters):
        raise InputError(
            "`model` has trainable parameters without values (device meta), as accelerate's "
            "cpu_offload leaves them between passes. Load the trainable parameters without "
            "offloading."
        )
    if not any(parameter.requires_grad for parameter in parameters):
        raise InputError(
            "Expected `model` to have a parameter that requires gradients, "
            f"got {len(parameters)} parameters, all frozen."
        )


def _check_ownership(stepped: list[Tensor], parameters: list[Tensor]) -> None:
    own = {id(parameter): parameter for parameter in parameters}
    held = [own[id(p)] for p in stepped if id(p) in own]
    if not held and _are_master_weights(stepped, parameters):
        raise InputError(
            "`optimizer` steps float32 master copies of the parameters of `model`, not the "
            "parameters: its step changes the model only when the copies are written back. Track "
            "with an optimizer of the model's own parameters, such as torch's optimizers under "
            "torch.autocast with float32 parameters."
        )
    if not held:
        raise InputError(
            "`optimizer` holds no parameter of `model`. "
            "Build the optimizer from this model's parameters, after moving it to its device."
        )
    if not any(parameter.requires_grad for parameter in held):
        raise InputError(
            "Expected `optimizer` to hold a parameter of `model` that requires gradients, "
            f"got {len(held)}, all frozen."
        )


def _are_master_weights(stepped: list[Tensor], parameters: list[Any]) -> bool:
    """Return whether an optimizer holds float32 copies of half-precision parameters."""
    halves = [tuple(p.shape) for p in parameters if p.dtype in (torch.float16, torch.bfloat16)]
    copies = [tuple(tensor.shape) for tensor in stepped if tensor.dtype == torch.float32]
    return bool(copies) and Counter(copies) <= Counter(halves)


def _check_parallelism(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse ways to distribute a model that rote cannot restore."""
    inner = getattr(optimizer, "optimizer", None)
    for thing in (*model.modules(), optimizer, inner):
        for kind in type(thing).__mro__:
            if f"{kind.__module__}.".startswith("opacus."):
                raise InputError(_OPACUS.format(what=f"a {kind.__name__} of Opacus"))
            for home, name in _UNKNOWN.items():
                if f"{kind.__module__}.".startswith(f"{home}."):
                    _refuse(f"{name} ({kind.__qualname__})")
    for problem in (*_find_ddp_problems(model), *_find_shard_problems(model, optimizer)):
        _refuse(problem)


def _find_ddp_problems(model: nn.Module) -> Iterator[str]:
    wrappers = [module for module in model.modules() if isinstance(module, DistributedDataParallel)]
    if any(isinstance(module, DistributedDataParallel) for module in unwrap(model).modules()):
        yield "DistributedDataParallel around parts of the model instead of all of it"
    for wrapper in wrappers:
        if wrapper.process_group.size() != count_ranks():
            yield f"DistributedDataParallel over {wrapper.process_group.size()} of the ranks"
        if getattr(wrapper, "mixed_precision", None) is not None:
            yield "DistributedDataParallel with a mixed_precision of its own"


def _find_shard_problems(model: nn.Module, optimizer: Optimizer) -> Iterator[str]:
    if any("replicate" in _list_composable_names(module) for module in model.modules()):
        yield "torch.distributed's composable `replicate`"
    shards: list[Any] = find_sharded_parameters(
        model
    )  # DTensor, which is not imported for its type
    known = {id(shard) for shard in shards}
    for tensor in (*model.parameters(), *find_parameters(optimizer)):
        if hasattr(tensor, "ds_id"):
            yield "DeepSpeed's partitioned parameters"
        if hasattr(tensor, "_is_flat_param") or hasattr(tensor, "_fsdp_flattened"):
            yield "parameters of FSDP1 (FullyShardedDataParallel)"
        if hasattr(tensor, "device_mesh") and id(tensor) not in known:
            yield "tensor parallelism (a DTensor that fully_shard does not hold)"
    for shard in shards:
        mesh, placements = shard.device_mesh, shard.placements
        # One axis for the shards, or one more in front for replicas of them (HSDP).
        if mesh.ndim > 2 or (mesh.ndim == 2 and not placements[0].is_replicate()):
            yield "fully_shard together with tensor parallelism"
        if mesh.size() != count_ranks():
            yield f"fully_shard over {mesh.size()} of {count_ranks()} ranks"
    if is_offloaded(model):
        yield "fully_shard with a CPUOffloadPolicy"


def _list_composable_names(module: nn.Module) -> set[str]:
    """Return the names of torch's composable APIs that were applied to a module."""
    registries = [v for k, v in vars(module).items() if k.startswith("__composable_api_state_key")]
    return {getattr(entry, "__name__", entry) for registry in registries for entry in registry}


def _refuse(what: str) -> NoReturn:
    raise InputError(f"rote cannot probe {what}. {_ADVICE}")
