"""When to probe: at every n-th call, or whenever a callable says so."""

from collections.abc import Callable


def is_due(every: int | Callable[[int], bool], step: int) -> bool:
    """Whether a probe is due after this unit of training.

    Args:
        every: probe when the step is a multiple of this, or when this, called with the step, is
            true.
        step: the number of the unit, from 1.

    Example:
        >>> [step for step in range(1, 8) if is_due(3, step)]
        [3, 6]
    """
    return every(step) if callable(every) else step % every == 0
