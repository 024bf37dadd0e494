"""SimBA, a black-box attack on images (Guo et al. 2019, Simple Black-box Adversarial Attacks)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn


class Attacked(NamedTuple):
    """The outcome of the attack for every image.

    Attributes:
        images: the attacked images.
        tried: the number of pixels tried until the prediction changed, or the maximum.
        fooled: whether the prediction differs from the label.
    """

    images: Tensor
    tried: Tensor
    fooled: Tensor


def attack_by_pixels(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    order: Tensor,
    *,
    epsilon: Tensor,
    low: Tensor,
    high: Tensor,
) -> Attacked:
    """Change one pixel after another where this makes the label less probable.

    Each pixel of each channel is tried once, with +ε, and with −ε if that did not help; a change
    is kept if the probability of the label falls. An image is done once its prediction differs
    from its label.

    Args:
        model: the network, in eval mode.
        images: an array of shape (n, channels, height, width).
        labels: the classes of the images.
        order: the positions in a flattened image to try, of shape (n, iterations).
        epsilon: the size of a change, for every position in a flattened image.
        low: the lowest allowed value of every position.
        high: the highest allowed value of every position.
    """
    flat = images.flatten(1).clone()
    tried = torch.zeros(len(flat), dtype=torch.long)

    def judge_changes(rows: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            logits = model(candidates.view(-1, *images.shape[1:]))
        wanted = labels[rows]
        probability = logits.softmax(1).gather(1, wanted[:, None])[:, 0]
        return probability, logits.argmax(1) == wanted

    everything = torch.arange(len(flat))
    probability, stands = judge_changes(everything, flat)
    for places in order.T:
        rows = stands.nonzero()[:, 0]
        tried[rows] += 1
        for sign in (1, -1):
            if not len(rows):
                break
            at = places[rows]
            candidates = flat[rows]
            moved = candidates[torch.arange(len(rows)), at] + sign * epsilon[at]
            candidates[torch.arange(len(rows)), at] = moved.clamp(low[at], high[at])
            now, still = judge_changes(rows, candidates)
            better = now < probability[rows]
            kept = rows[better]
            flat[kept], probability[kept] = candidates[better], now[better]
            stands[kept] = still[better]
            rows = rows[~better]
    return Attacked(flat.view_as(images), tried, ~stands)
