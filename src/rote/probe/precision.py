"""The caller's mixed precision, without its cache of converted weights."""

import torch


def uncached_autocast(device: torch.device) -> torch.autocast:
    """The autocast that is on now, converting weights anew in every forward pass.

    Autocast keeps the low-precision copies of weights until its block ends. Read after a step, such
    a copy would show the weights from before the step, and the drop would be zero.

    Args:
        device: where the model lives.
    """
    return torch.autocast(
        device.type,
        dtype=torch.get_autocast_dtype(device.type),
        enabled=torch.is_autocast_enabled(device.type),
        cache_enabled=False,
    )
