"""Where a run computes, with how many threads and in which precision."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from rote.workloads.spec import FieldError


def choose_device(name: str) -> torch.device:
    """The device of a run; ``auto`` takes the first there is of cuda, mps and cpu.

    Raises:
        FieldError: if a device is asked for that is not there.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, is_there in there.items() if is_there))
    if not there[name]:
        found = ", ".join(kind for kind, is_there in there.items() if is_there)
        raise FieldError("device", f"to be a device that is there ({found}), got {name!r}.")
    return torch.device(name)


@contextmanager
def repeatable(device: torch.device, threads: int) -> Iterator[None]:
    """Compute in a way that gives the same bits every time, and put the settings back after.

    Sums depend on the number of threads of a CPU.
    """
    if device.type == "cuda":
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
            yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def precision(device: torch.device, *, bf16: bool) -> AbstractContextManager[object]:
    """A block in which forward passes use bfloat16 where torch thinks it safe, if ``bf16``."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if bf16 else nullcontext()
