"""Values of tensors, put back into the memory they came from."""

from collections.abc import Iterable

import torch
from torch import Tensor


class TensorValues:
    """A copy of the values of some tensors.

    ``restore`` writes into the original memory: a tensor keeps its identity, its storage, and its
    version counter, so a graph built before the copy can still be differentiated after the restore.

    Args:
        tensors: the tensors to copy; repeated ones are copied once.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        unique = {id(tensor): tensor for tensor in tensors}.values()
        parts = [part for tensor in unique for part in strided_parts(tensor)]
        self._tensors = [part for part in parts if _is_writable(part)]
        # `.data` shares memory but not the version counter, and still points to the original
        # storage when somebody has given the tensor another one in between.
        self._memory = [tensor.data for tensor in self._tensors]
        self._saved = [memory.clone() for memory in self._memory]
        self._counted = [tensor for tensor in self._tensors if not tensor.is_inference()]
        self._versions = [tensor._version for tensor in self._counted]

    def is_untouched(self) -> bool:
        """Whether nothing was written to the tensors since, as far as autograd knows."""
        return [tensor._version for tensor in self._counted] == self._versions

    @torch.no_grad()
    def restore(self) -> None:
        """Put every value back, bit for bit."""
        for tensor, memory in zip(self._tensors, self._memory, strict=True):
            if tensor.data_ptr() != memory.data_ptr() or tensor.stride() != memory.stride():
                tensor.data = memory
        if self._memory:
            torch._foreach_copy_(self._memory, self._saved)
        torch._C._autograd._unsafe_set_version_counter(tuple(self._counted), tuple(self._versions))


def strided_parts(tensor: Tensor) -> list[Tensor]:
    """The ordinary tensors that a tensor is made of: itself, or the parts of a sparse one."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout == torch.sparse_csr:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return []  # a rarer layout, kept by reference


def _is_writable(tensor: Tensor) -> bool:
    # An expanded tensor has many elements in one place: torch refuses to write to it, so nobody
    # can have changed it through this tensor either.
    sizes_and_strides = zip(tensor.size(), tensor.stride(), strict=True)
    return not any(size > 1 and stride == 0 for size, stride in sizes_and_strides)
