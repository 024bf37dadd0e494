"""``rote.track`` under Lightning Fabric, as docs/lightning.md shows it."""

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import rote
from tests.integrations.lightning_runs import QUIET
from tests.integrations.small_runs import BATCH, CLASSES, Augmented, Network, X, bits
from tests.oracle import oracle_losses

lightning = pytest.importorskip("lightning", reason="needs rote[lightning]")

pytestmark = [pytest.mark.slow, *[pytest.mark.filterwarnings(entry) for entry in QUIET]]


class InPrecision(torch.nn.Module):
    """What Fabric makes of a network, for the oracle: without a cache."""

    def __init__(self, network: torch.nn.Module, *, bf16: bool) -> None:
        super().__init__()
        self.inside, self.bf16 = network, bf16

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            logits: torch.Tensor = self.inside(x)
        return logits.float()


def trained(precision: str, *, probed: bool) -> tuple[Any, Any]:
    fabric = lightning.Fabric(accelerator="cpu", devices=1, precision=precision)
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    model, stepping = fabric.setup(network, optimizer)
    loader = fabric.setup_dataloaders(DataLoader(Augmented(), batch_size=BATCH, shuffle=True))
    tracker = None
    if probed:
        policy = rote.ProbePolicy(verify=True)
        tracker = rote.track(
            model,
            stepping,
            inputs=X,
            num_classes=CLASSES,
            backward=fabric.backward,
            policy=policy,
        )
    torch.manual_seed(5)
    losses = []
    for _ in range(3):
        for x, y in loader:
            stepping.zero_grad()
            loss = cross_entropy(model(x), y)
            fabric.backward(loss)
            stepping.step()
            losses.append(loss.item())
        if tracker is not None:
            twin = InPrecision(network, bf16=precision == "bf16-mixed").train()
            expected = oracle_losses(twin, optimizer, X, tracker.batch.labels)
            reading = tracker.probe()
            assert (reading.loss_before, reading.loss_after) == expected
            assert expected[0] != expected[1]
    left = [network.state_dict(), optimizer.state_dict(), losses, torch.get_rng_state()]
    return bits(left), tracker


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_is_bit_identical_and_readings_are_those_of_deep_copies(precision: str) -> None:
    expected, _ = trained(precision, probed=False)
    found, tracker = trained(precision, probed=True)
    assert found == expected
    assert len(tracker.readings) == 3
