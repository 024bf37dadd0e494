"""Where the tensors of a nest go: no GPU is needed to move them, only to compute there."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import rote
from rote.probe.inputs import move_inputs
from tests.oracle import oracle_losses

AWAY = torch.device("meta")


def devices(nest: Any) -> list[str]:
    entries = nest.values() if isinstance(nest, dict) else nest
    return [entry.device.type for entry in entries]


@pytest.mark.parametrize("keys", [None, ("x", "lengths")])
def test_batch_on_another_device_is_moved_as_a_whole(keys: tuple[str, str] | None) -> None:
    batch: Any = (torch.ones(3, 2), torch.tensor([1, 2, 1]))
    batch = batch if keys is None else dict(zip(keys, batch, strict=True))
    assert devices(move_inputs(batch, AWAY)) == ["meta", "meta"]
    assert devices(move_inputs(batch, torch.device("cpu"))) == ["cpu", "cpu"]


def test_batch_placed_by_the_user_is_not_moved() -> None:
    batch = {"x": torch.ones(3, 2, device=AWAY), "lengths": torch.tensor([1, 2, 1])}
    assert move_inputs(batch, AWAY) is batch
    assert devices(move_inputs([torch.ones(3), batch["x"]], AWAY)) == ["cpu", "meta"]


class Reader(nn.Module):
    """Reads sequences of several lengths, which must be on the CPU wherever the rest is."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(4, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        x, lengths = pair
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.cells(packed)[1][0])


def test_packed_sequences_are_probed() -> None:
    torch.manual_seed(0)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters())
    inputs = ((torch.randn(12, 5, 4), torch.randint(1, 6, (12,))),)
    policy = rote.ProbePolicy(batch=8)
    tracker = rote.track(model, optimizer, inputs=inputs, num_classes=3, policy=policy)
    batch = tracker.batch
    expected = oracle_losses(model, optimizer, batch.inputs[0], batch.labels)
    reading = tracker.probe()
    assert reading is not None
    assert (reading.loss_before, reading.loss_after) == expected
