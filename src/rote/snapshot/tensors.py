"""Values and gradients of tensors, restored into the memory they came from."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class TensorValues:
    """A copy of the values of some tensors.

    ``restore`` writes into the original memory: a tensor keeps its identity, its storage, and its
    version counter, so a graph built before the copy can still be differentiated after the restore.

    Args:
        tensors: the tensors to copy; repeated ones are copied once.
        spares_unchanged: on the CPU, write only to tensors that changed. Tensors that are seldom
            written may lie in memory that cannot be written.
        device: where to keep the copy; by default on the tensor's own device.
    """

    def __init__(
        self,
        tensors: Iterable[Tensor],
        *,
        spares_unchanged: bool = False,
        device: str | None = None,
    ) -> None:
        unique = {id(tensor): tensor for tensor in tensors}.values()
        parts = [part for tensor in unique for part in split_into_strided(tensor)]
        self._tensors = [part for part in parts if _is_writable(part) and not is_freed(part)]
        # `.data` shares memory but not the version counter, and still points to the original
        # storage when the tensor has been given another one in between.
        self._memory = [tensor.data for tensor in self._tensors]
        self._saved = [
            memory.clone() if device is None else memory.to(device, copy=True)
            for memory in self._memory
        ]
        wrappers = [tensor for tensor in unique if hasattr(tensor, "__tensor_flatten__")]
        counted = [*self._tensors, *wrappers]
        self._counted = [tensor for tensor in counted if not tensor.is_inference()]
        self._versions = [tensor._version for tensor in self._counted]
        self._spares_unchanged = spares_unchanged

    def is_untouched(self) -> bool:
        """Return whether all values are the same, bit for bit. Waits once for each device."""
        pairs = list(zip(self._memory, self._saved, strict=True))
        if not all(_have_same_bits(*pair) for pair in pairs if _is_on_host(pair[0])):
            return False
        differs: dict[torch.device, list[Tensor]] = {}
        for memory, saved in pairs:
            if not _is_on_host(memory):
                changed = (
                    _view_as_integers(memory) != _view_as_integers(saved.to(memory.device))
                ).any()
                differs.setdefault(memory.device, []).append(changed)
        return not any(bool(torch.stack(changed).any()) for changed in differs.values())

    @torch.no_grad()
    def restore(self) -> None:
        """Restore every value, bit for bit."""
        pairs = list(zip(self._memory, self._saved, strict=True))
        for tensor, memory in zip(self._tensors, self._memory, strict=True):
            if not _is_same_memory(tensor, memory):
                tensor.data = memory
        if self._spares_unchanged:
            # A comparison waits for the device; a write does not.
            pairs = [
                pair for pair in pairs if not (_is_on_host(pair[0]) and _have_same_bits(*pair))
            ]
        if pairs:
            torch._foreach_copy_([memory for memory, _ in pairs], [saved for _, saved in pairs])
        torch._C._autograd._unsafe_set_version_counter(tuple(self._counted), tuple(self._versions))


def _is_on_host(tensor: Tensor) -> bool:
    """Return whether the values can be read without waiting for another device."""
    return tensor.device.type == "cpu"


_MUCH_DATA = 2**20


def holds_quantized(tensor: Tensor) -> bool:
    """Whether a tensor is probably a quantized weight: at least one MiB of integers.

    GPTQ and AWQ keep weights in buffers. Counters and queues of integers are smaller, or are found
    by the trial, since passes write to them.
    """
    is_real = tensor.is_floating_point() or tensor.is_complex()
    return not is_real and tensor.layout == torch.strided and tensor.nbytes >= _MUCH_DATA


class FrozenTensors:
    """Tensors that are not trained, watched by their version counters instead of copied.

    torch counts every write that it sees, except through ``.data``. A trial keeps what is written
    (``keep_writes``); other writes are found when the tensors are restored.

    Args:
        tensors: the tensors to watch; repeated ones are watched once.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = list({id(tensor): tensor for tensor in tensors}.values())
        self._versions = [_read_versions(tensor) for tensor in self._tensors]
        parts = [part for tensor in self._tensors for part in split_into_strided(tensor)]
        self._memory = [(part, part.data) for part in parts if not is_freed(part)]
        self._kept: dict[int, TensorValues] = {}

    def __len__(self) -> int:
        return len(self._tensors)

    def rebind(self) -> None:
        """Give every tensor its own memory again, where a pass has replaced it."""
        for part, memory in self._memory:
            if not _is_same_memory(part, memory):
                part.data = memory

    def restore(self) -> list[Tensor]:
        """Restore the values that were kept, and the memory of every tensor.

        Returns:
            The tensors that were written to and cannot be restored.
        """
        self.rebind()
        for values in self._kept.values():
            values.restore()
        pairs = zip(self._tensors, self._versions, strict=True)
        return [tensor for tensor, versions in pairs if _read_versions(tensor) != versions]

    @property
    def written(self) -> set[int]:
        """The ids of the tensors that were written to while writes were kept."""
        return set(self._kept)

    @contextmanager
    def keep_writes(self) -> Iterator[None]:
        """Copy a tensor just before an operation of torch writes to it in the block."""
        places: dict[int, list[Tensor]] = {}
        for tensor in self._tensors:
            for place in find_addresses(tensor):
                places.setdefault(place, []).append(tensor)
        with _BeforeWrites(lambda target: self._keep(target, places)):
            yield

    def _keep(self, target: Tensor, places: dict[int, list[Tensor]]) -> None:
        for place in find_addresses(target):
            for tensor in places.get(place, ()):
                if id(tensor) not in self._kept:
                    self._kept[id(tensor)] = TensorValues([tensor])


class _BeforeWrites(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that passes a function every tensor to which an operation is about to write."""

    def __init__(self, look: Callable[[Tensor], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._look = look

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            for place, argument in enumerate(func._schema.arguments):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                value = args[place] if place < len(args) else kwargs.get(argument.name)
                for target in value if isinstance(value, list | tuple) else [value]:
                    if isinstance(target, Tensor):
                        self._look(target)
        return func(*args, **kwargs)


def _read_versions(tensor: Tensor) -> list[int]:
    counted = [tensor, *split_into_strided(tensor)]
    return [0 if part.is_inference() else part._version for part in counted]


class Gradients:
    """The ``.grad`` and ``requires_grad`` of some tensors.

    Nothing is copied: the gradient tensors themselves are detached and attached again, so
    half-accumulated gradients survive whatever happens in between.

    Args:
        tensors: any tensors; only leaves have gradients to keep.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        leaves = [tensor for tensor in tensors if tensor.is_leaf]
        self._saved = [(leaf, leaf.grad, leaf.requires_grad) for leaf in leaves]

    def set_aside(self) -> None:
        """Detach the gradients, so that a backward pass starts from none."""
        for leaf, _, _ in self._saved:
            leaf.grad = None

    def restore(self) -> None:
        """Attach the same gradient tensors again."""
        for leaf, grad, requires_grad in self._saved:
            if not leaf.is_leaf:
                leaf.detach_()  # a forward pass wrote into it without detaching first
            leaf.grad = grad
            if leaf.requires_grad != requires_grad:
                leaf.requires_grad_(requires_grad)


def split_into_strided(tensor: Tensor) -> list[Tensor]:
    """Return the ordinary tensors that a tensor is made of: itself, or the parts of a sparse one.

    For a tensor that wraps others these are the others: for a DTensor, this rank's shard.
    """
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        inner = [entry for name in names if isinstance(entry := getattr(tensor, name), Tensor)]
        return [part for entry in inner for part in split_into_strided(entry)]
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout == torch.sparse_csr:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return []  # a rarer layout, kept by reference


_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def find_addresses(tensor: Tensor) -> set[int]:
    """Return the addresses of a tensor's memory; tensors that share memory share an entry."""
    try:
        return {part.untyped_storage().data_ptr() for part in split_into_strided(tensor)} - {0}
    except RuntimeError:
        return set()  # a wrapper around other tensors, without memory of its own


def _have_same_bits(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have equal bits: −0 differs from 0, and NaN equals itself."""
    return torch.equal(_view_as_integers(one), _view_as_integers(other.to(one.device)))


def _view_as_integers(tensor: Tensor) -> Tensor:
    # Integers of four bytes are compared several times faster than bytes.
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return flat.view(_INTEGERS.get(tensor.element_size(), torch.uint8))


def _is_same_memory(tensor: Tensor, memory: Tensor) -> bool:
    return (
        tensor.data_ptr() == memory.data_ptr()
        and tensor.dtype == memory.dtype
        and tensor.shape == memory.shape
        and tensor.stride() == memory.stride()
    )


def is_freed(tensor: Tensor) -> bool:
    """Return whether the memory was freed, as FSDP2 does between passes: reading it would crash."""
    try:
        return tensor.numel() > 0 and tensor.untyped_storage().size() == 0
    except RuntimeError:
        return False  # without a storage of its own


def _is_writable(tensor: Tensor) -> bool:
    # An expanded tensor has many elements in one place: torch refuses to write to it, so it
    # cannot have been changed through this tensor either.
    sizes_and_strides = zip(tensor.size(), tensor.stride(), strict=True)
    return not any(size > 1 and stride == 0 for size, stride in sizes_and_strides)
