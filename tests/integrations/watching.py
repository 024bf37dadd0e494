"""A signal that remembers what it was shown."""

from collections.abc import Mapping
from typing import Any

import torch

from rote.records import Column
from rote.tracking import Batch, Signal


class Watching(Signal):
    """Draws random numbers at each batch, and reads the share of right answers since the last."""

    name = "watching"
    columns = (Column("watched", "share of right answers", "signal", "share", better="higher"),)

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.hits: list[float] = []

    def observe(self, batch: Batch) -> None:
        torch.rand(3)
        self.batches.append(batch)
        counted = batch.labels >= 0
        right = batch.logits.argmax(-1) == batch.labels
        self.hits.append(right[counted].double().mean().item())

    def read(self, epoch: int) -> Mapping[str, float]:
        found, self.hits = self.hits, []
        return {"watched": sum(found) / len(found)} if found else {}

    def state_dict(self) -> dict[str, Any]:
        return {"hits": list(self.hits)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.hits = list(state["hits"])
