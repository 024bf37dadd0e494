"""Means, messages and checks over the ranks of one training.

With one process, or before ``torch.distributed`` is initialized, nothing here communicates.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from torch import distributed

from rote import errors
from rote.errors import InputError, RankError, RoteError

T = TypeVar("T")


def is_distributed() -> bool:
    """Return whether ``torch.distributed`` is initialized, even for one rank."""
    return bool(distributed.is_available() and distributed.is_initialized())


def count_ranks() -> int:
    """Return how many ranks train together; 1 without ``torch.distributed``.

    Returns:
        The number of ranks.

    Example:
        >>> count_ranks()
        1
    """
    return int(distributed.get_world_size()) if is_distributed() else 1


def get_rank() -> int:
    """Return which of the ranks this process is, from 0.

    Returns:
        The number of this rank.

    Example:
        >>> get_rank()
        0
    """
    return int(distributed.get_rank()) if count_ranks() > 1 else 0


def is_first_rank() -> bool:
    """Return whether this process is the first rank, which writes files.

    Returns:
        True on one rank only, and without ``torch.distributed``.

    Example:
        >>> is_first_rank()
        True
    """
    return get_rank() == 0


def average_over_ranks(values: Sequence[float]) -> list[float]:
    """Return the mean of each number over all ranks, the same bits on every rank.

    The sum is in the order of the ranks, in double precision. If a number is not finite on one
    rank, its mean is not finite on any. Every rank must pass equally many numbers.

    Args:
        values: the numbers of this rank.

    Returns:
        The mean of each number.

    Example:
        >>> average_over_ranks([0.5, 1.0])
        [0.5, 1.0]
    """
    if count_ranks() == 1:
        return list(values)
    everyones = _gather([float(value) for value in values])
    return [sum(numbers) / len(everyones) for numbers in zip(*everyones, strict=True)]


def broadcast_from_first(value: T) -> T:
    """Return the first rank's value, which must be small and picklable, on every rank.

    Args:
        value: the value of this rank.

    Returns:
        The value of the first rank.

    Example:
        >>> broadcast_from_first("runs/a")
        'runs/a'
    """
    if count_ranks() == 1:
        return value
    box = [value]
    distributed.broadcast_object_list(box, src=0, group=_get_side_group())
    _wait_for_gloo()
    return box[0]


@contextmanager
def fail_together() -> Iterator[dict[str, str]]:
    """Run a block on all ranks that fails on all of them if it fails on one.

    At its end the ranks exchange their outcomes. Blocks must not be nested, and nothing inside may
    wait for other ranks, since a rank that failed has already left the block.

    Yields:
        An empty dictionary for facts that must be the same on every rank, by name.

    Raises:
        InputError: on every rank, if a fact differs.
        RankError: if another rank raised an error of another package; rote's are raised as such.

    Example:
        >>> with fail_together():
        ...     path = "runs/a"
    """
    facts: dict[str, str] = {}
    if count_ranks() == 1:
        yield facts
        return
    try:
        yield facts
    except BaseException as error:
        # Also after an interrupt, since the others wait.
        _gather((type(error).__name__, str(error), facts))
        raise
    outcomes = _gather((None, "", facts))
    for number, (kind, message, _) in enumerate(outcomes):
        if kind is not None:
            _raise_for(number, kind, message)
    _check_agreement([facts for _, _, facts in outcomes])


def _gather(value: T) -> list[T]:
    """Return the values of all ranks, in their order."""
    everyones: list[T | None] = [None] * count_ranks()
    distributed.all_gather_object(everyones, value, group=_get_side_group())
    _wait_for_gloo()
    return everyones  # type: ignore[return-value]  # every place is filled now


_side_groups: dict[int, tuple[Any, Any]] = {}
"""By the id of torch's group of all ranks: that group, and the one for messages."""


def _get_side_group() -> Any:  # noqa: ANN401  # a process group, whose class depends on the build
    """Return a group of all ranks that passes messages through the CPU.

    NCCL would send them through a GPU: on a rank that has not called ``set_device``, GPU 0.
    """
    world = distributed.group.WORLD
    if str(distributed.get_backend()) == "gloo":
        return world
    if id(world) not in _side_groups:
        _side_groups.clear()  # of a group that was destroyed
        _side_groups[id(world)] = (world, distributed.new_group(backend="gloo"))
    return _side_groups[id(world)][1]


def _wait_for_gloo() -> None:
    """Give gloo's threads time, and the GIL, to free what they have sent.

    A process that ends before that is aborted (seen with torch 2.13).
    """
    time.sleep(0.002)


def _raise_for(number: int, kind: str, message: str) -> NoReturn:
    own = getattr(errors, kind, None)
    if isinstance(own, type) and issubclass(own, RoteError):
        raise own(f"Rank {number}: {message}")
    raise RankError(f"Rank {number} failed with {kind}: {message}")


def _check_agreement(everyones: list[dict[str, str]]) -> None:
    first = everyones[0]
    for number, facts in enumerate(everyones):
        for name in {**first, **facts}:
            mine, theirs = facts.get(name), first.get(name)
            if mine != theirs:
                raise InputError(
                    f"Expected {name} to be the same on every rank, got {theirs} on rank 0 and "
                    f"{mine} on rank {number}. Give every rank the same: draw with one seed, and "
                    "before the data is divided among the ranks."
                )
