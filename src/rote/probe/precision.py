"""The caller's mixed precision, without its cache of converted weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def uncached_autocast(device: torch.device) -> Iterator[None]:
    """The autocast that is on now, converting weights anew in every forward pass.

    Autocast keeps the low-precision copies of weights until its block ends. Read after a step, such
    a copy would show the weights from before the step, and the drop would be zero.

    Args:
        device: where the model lives.

    Yields:
        Nothing.
    """
    with torch.autocast(
        device.type,
        dtype=torch.get_autocast_dtype(device.type),
        enabled=torch.is_autocast_enabled(device.type),
        cache_enabled=False,
    ):
        try:
            yield
        finally:
            # A model with an autocast of its own may have left stepped weights in the cache.
            torch.clear_autocast_cache()
