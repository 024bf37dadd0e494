"""Values and gradients of tensors, put back into the memory they came from."""

from collections.abc import Iterable

import torch
from torch import Tensor


class TensorValues:
    """A copy of the values of some tensors.

    ``restore`` writes into the original memory: a tensor keeps its identity, its storage, and its
    version counter, so a graph built before the copy can still be differentiated after the restore.

    Args:
        tensors: the tensors to copy; repeated ones are copied once.
        spares_unchanged: write only where something changed: for tensors that are read more often
            than written, and may lie in memory that cannot be written.
    """

    def __init__(self, tensors: Iterable[Tensor], *, spares_unchanged: bool = False) -> None:
        unique = {id(tensor): tensor for tensor in tensors}.values()
        parts = [part for tensor in unique for part in strided_parts(tensor)]
        self._tensors = [part for part in parts if _is_writable(part) and not is_freed(part)]
        # `.data` shares memory but not the version counter, and still points to the original
        # storage when somebody has given the tensor another one in between.
        self._memory = [tensor.data for tensor in self._tensors]
        self._saved = [memory.clone() for memory in self._memory]
        wrappers = [tensor for tensor in unique if hasattr(tensor, "__tensor_flatten__")]
        counted = [*self._tensors, *wrappers]
        self._counted = [tensor for tensor in counted if not tensor.is_inference()]
        self._versions = [tensor._version for tensor in self._counted]
        self._spares_unchanged = spares_unchanged

    def is_untouched(self) -> bool:
        """Whether all values are still the same, bit for bit."""
        return all(map(_same_bits, self._memory, self._saved))

    @torch.no_grad()
    def restore(self) -> None:
        """Put every value back, bit for bit."""
        pairs = list(zip(self._memory, self._saved, strict=True))
        for tensor, memory in zip(self._tensors, self._memory, strict=True):
            if not _is_same_memory(tensor, memory):
                tensor.data = memory
        if self._spares_unchanged:
            pairs = [(memory, saved) for memory, saved in pairs if not _same_bits(memory, saved)]
        if pairs:
            torch._foreach_copy_([memory for memory, _ in pairs], [saved for _, saved in pairs])
        torch._C._autograd._unsafe_set_version_counter(tuple(self._counted), tuple(self._versions))


class Gradients:
    """The ``.grad`` and ``requires_grad`` of some tensors.

    Nothing is copied: the gradient tensors themselves are taken off and put on again, so
    half-accumulated gradients survive whatever happens in between.

    Args:
        tensors: any tensors; those that are no leaves have no gradient to keep.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        leaves = [tensor for tensor in tensors if tensor.is_leaf]
        self._saved = [(leaf, leaf.grad, leaf.requires_grad) for leaf in leaves]

    def set_aside(self) -> None:
        """Take the gradients off, so that a backward pass starts from none."""
        for leaf, _, _ in self._saved:
            leaf.grad = None

    def restore(self) -> None:
        """Put the same gradient tensors back on."""
        for leaf, grad, requires_grad in self._saved:
            if not leaf.is_leaf:
                leaf.detach_()  # a forward pass wrote into it without detaching first
            leaf.grad = grad
            if leaf.requires_grad != requires_grad:
                leaf.requires_grad_(requires_grad)


def strided_parts(tensor: Tensor) -> list[Tensor]:
    """The ordinary tensors that a tensor is made of: itself, or the parts of a sparse one.

    Of a tensor that wraps others, those: of a DTensor, this rank's shard.
    """
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        inner = [entry for name in names if isinstance(entry := getattr(tensor, name), Tensor)]
        return [part for entry in inner for part in strided_parts(entry)]
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout == torch.sparse_csr:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return []  # a rarer layout, kept by reference


_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def as_bytes(tensor: Tensor) -> Tensor:
    """The bytes of an ordinary tensor."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def memory_of(tensor: Tensor) -> set[int]:
    """Where the values of a tensor lie; tensors that share memory share an entry."""
    try:
        return {part.untyped_storage().data_ptr() for part in strided_parts(tensor)} - {0}
    except RuntimeError:
        return set()  # a wrapper around other tensors, without memory of its own


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Equal as integers of the same width: −0 differs from 0, and NaN equals itself."""
    # Integers of four bytes are compared several times faster than bytes.
    width = _INTEGERS.get(one.element_size(), torch.uint8)
    return torch.equal(as_bytes(one).view(width), as_bytes(other).view(width))


def _is_same_memory(tensor: Tensor, memory: Tensor) -> bool:
    return (
        tensor.data_ptr() == memory.data_ptr()
        and tensor.shape == memory.shape
        and tensor.stride() == memory.stride()
    )


def is_freed(tensor: Tensor) -> bool:
    """Whether the memory was taken away, as FSDP2 does between passes: to read it is to crash."""
    try:
        return tensor.numel() > 0 and tensor.untyped_storage().size() == 0
    except RuntimeError:
        return False  # without a storage of its own


def _is_writable(tensor: Tensor) -> bool:
    # An expanded tensor has many elements in one place: torch refuses to write to it, so nobody
    # can have changed it through this tensor either.
    sizes_and_strides = zip(tensor.size(), tensor.stride(), strict=True)
    return not any(size > 1 and stride == 0 for size, stride in sizes_and_strides)
