"""The rules for devices, on one that holds tensors: run in a process of its own."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typer.testing import CliRunner

import rote
from rote.cli.main import app
from rote.errors import ProbeMemoryError, SkippedReadingWarning
from rote.snapshot.fingerprint import find_differences, take_fingerprint
from rote.tracking import check_device
from rote.tracking.device_check import count_blocking_reads
from tests.device import toy

DEVICE = toy.register()
MEGABYTE = 2**20


def peak_of(action: Callable[[], object]) -> int:
    """Return the most memory of the device in use during an action, with what was in use before."""
    DEVICE.reset_peak_memory_stats()
    action()
    return DEVICE.max_memory_allocated()


def reads_of(action: Callable[[], object]) -> int:
    """Return how often an action waits for the device, as the device itself counts."""
    before = int(torch.ops.toy.reads())
    action()
    return int(torch.ops.toy.reads()) - before


class Work:
    """A model in training on the device."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, size: int) -> None:
        self.model = model.to("toy")
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-3)
        self.x, self.y, self.size = x.to("toy"), y.to("toy"), size
        self.trained_bytes = 3 * sum(parameter.nbytes for parameter in trained)  # with AdamW's
        self.step()
        self.optimizer.zero_grad()

    def step(self) -> None:
        self.optimizer.zero_grad()
        cross_entropy(self.model(self.x[: self.size]), self.y[: self.size]).backward()
        self.optimizer.step()

    def track(self, **policy: object) -> rote.Tracker:
        chosen = rote.ProbePolicy(plain=None, **policy)  # type: ignore[arg-type]
        return rote.track(self.model, self.optimizer, inputs=self.x, num_classes=10, policy=chosen)


def with_frozen_base(size: int = 64) -> Work:
    torch.manual_seed(0)
    base = nn.Linear(256, 2048).requires_grad_(False)
    deep = nn.Linear(2048, 256).requires_grad_(False)
    model = nn.Sequential(base, nn.Tanh(), deep, nn.Linear(256, 128), nn.Tanh(), nn.Linear(128, 10))
    return Work(model, torch.randn(64, 256), torch.arange(64) % 10, size)


class Mean(nn.Module):
    """The mean over the rows of each sample."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def with_large_activations(size: int, width: int = 64, rows: int = 512) -> Work:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(64, width)]
    for _ in range(4):
        layers += [nn.Tanh(), nn.Linear(width, width)]
    model = nn.Sequential(*layers, Mean(), nn.Linear(width, 10))
    return Work(model, torch.randn(32, rows, 64), torch.arange(32) % 10, size)


def test_the_doctor_passes_the_device() -> None:
    found = check_device("toy")
    assert found.is_same
    assert found.plain_noise == found.repeat_noise == 0
    assert (found.generators, found.are_generators_kept) == (2, True)
    assert found.memory_ratio is not None
    assert 1 < found.memory_ratio < 2
    assert found.blocking_reads is not None
    assert 1 <= found.blocking_reads <= 8


def test_the_doctor_prints_a_table_of_a_model_of_the_user() -> None:
    options = ["--model", "mlp", "--optimizer", "Adam", "--shape", "1,8,8", "--device", "toy"]
    said = CliRunner().invoke(app, ["doctor", *options])
    assert said.exit_code == 0, said.output
    assert "mlp on toy (Toy 1000, rote" in said.output
    lines = said.output.splitlines()
    assert "| bits with and without probes | same | same |" in lines
    assert "| random generators (2) | restored | restored |" in lines


def deep_network() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(26):
        layers += [nn.Linear(8, 8), nn.BatchNorm1d(8)]
    return nn.Sequential(*layers, nn.Linear(8, 10))


@pytest.mark.parametrize("holdout", [16, 50])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_probe_waits_for_the_device_at_most_8_times(
    holdout: int, optimizer: type[torch.optim.Optimizer]
) -> None:
    torch.manual_seed(0)
    model = deep_network().to("toy")
    tracker = rote.track(
        model,
        optimizer(model.parameters(), lr=0.01),  # type: ignore[call-arg]
        inputs=torch.randn(holdout, 8),
        num_classes=10,
        policy=rote.ProbePolicy(batch=16),
    )
    tracker.probe()
    assert 1 <= reads_of(tracker.probe) <= 8


def test_reads_are_counted_as_the_device_counts_them() -> None:
    numbers = torch.arange(4.0).to("toy")
    actions: list[Callable[[], object]] = [
        lambda: numbers.sum().item(),
        lambda: bool((numbers > 1).any()),
        lambda: numbers.cpu().numpy(),
        numbers.tolist,
        lambda: torch.equal(numbers, numbers),
        lambda: torch.empty(4).copy_(numbers),
        lambda: numbers.nonzero(),
    ]
    for action in actions:
        assert reads_of(action) == 1
        assert count_blocking_reads(action, toy.DEVICE).total() == 1
    for action in (lambda: numbers + 1, lambda: numbers.to("toy", copy=True)):
        assert reads_of(action) == count_blocking_reads(action, toy.DEVICE).total() == 0
    assert count_blocking_reads(lambda: torch.ones(2).tolist(), toy.DEVICE).total() == 0


def test_the_generator_of_the_device_is_restored_and_checked() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 10)).to("toy")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(6, 4)
    tracker = rote.track(model, optimizer, inputs=x, num_classes=10)
    before, marks = DEVICE.get_rng_state(), take_fingerprint(model, optimizer)
    assert tracker.probe() is not None
    assert torch.equal(before, DEVICE.get_rng_state())
    assert find_differences(marks, take_fingerprint(model, optimizer)) == []
    model(x.to("toy"))
    assert not torch.equal(before, DEVICE.get_rng_state())
    assert find_differences(marks, take_fingerprint(model, optimizer)) == [
        "random state of the accelerator"
    ]


def test_a_frozen_base_costs_no_copy() -> None:
    work = with_frozen_base()
    tracker = work.track()
    tracker.probe()
    step = peak_of(work.step)
    work.optimizer.zero_grad()
    extra = peak_of(tracker.probe) - step
    assert extra <= 1.1 * work.trained_bytes
    frozen = sum(p.nbytes for p in work.model.parameters() if not p.requires_grad)
    assert frozen > 5 * work.trained_bytes  # else this shows nothing


def test_copies_on_the_host_save_memory_of_the_device() -> None:
    work = with_frozen_base(size=2)
    here, on_host = work.track(micro_batch=2), work.track(micro_batch=2, snapshot_device="cpu")
    before = [parameter.cpu() for parameter in work.model.parameters()]
    readings = [tracker.probe() for tracker in (here, on_host)]
    assert readings[0].drop == readings[1].drop  # type: ignore[union-attr]
    assert all(map(torch.equal, before, (p.cpu() for p in work.model.parameters())))
    saved = peak_of(here.probe) - peak_of(on_host.probe)
    assert saved >= work.trained_bytes / 3  # at least the parameters themselves


def test_a_probe_in_micro_batches_peaks_like_a_step() -> None:
    work = with_large_activations(size=2)
    tracker = work.track(micro_batch=2)
    step = peak_of(work.step)
    work.optimizer.zero_grad()
    assert peak_of(tracker.probe) <= 1.2 * step
    assert peak_of(work.track().probe) > 3 * step  # what micro-batches save


def test_with_copies_on_the_host_a_large_state_peaks_like_a_step() -> None:
    work = with_large_activations(size=2, width=256, rows=8)
    tracker = work.track(micro_batch=2, snapshot_device="cpu")
    step = peak_of(work.step)
    work.optimizer.zero_grad()
    assert peak_of(tracker.probe) <= 1.2 * step
    assert peak_of(work.track(micro_batch=2).probe) > 1.2 * step  # what the host saves


def test_training_continues_when_the_device_is_full() -> None:
    def train(*, probed: bool) -> list[Tensor]:
        work = with_large_activations(size=2)
        tracker = work.track() if probed else None
        work.step()
        if tracker is not None:
            held = DEVICE.memory_allocated()
            torch.ops.toy.set_limit(held + 16 * MEGABYTE)
            with pytest.warns(SkippedReadingWarning, match=r"micro_batch \(now None\)"):
                assert tracker.probe() is None
            assert DEVICE.memory_allocated() == held  # the activations are gone
            work.step()  # in the same memory
            torch.ops.toy.set_limit(0)
            assert tracker.probe() is not None
        else:
            work.step()
        return [parameter.cpu() for parameter in work.model.parameters()]

    assert all(map(torch.equal, train(probed=False), train(probed=True)))


def test_too_little_memory_when_tracking_begins_is_an_error() -> None:
    work = with_large_activations(size=2)
    torch.ops.toy.set_limit(DEVICE.memory_allocated() + 16 * MEGABYTE)
    try:
        with pytest.raises(ProbeMemoryError, match="32 samples at once.*micro_batch"):
            work.track()
    finally:
        torch.ops.toy.set_limit(0)
    assert work.track(micro_batch=2).probe() is not None


class Split(nn.Module):
    """An embedding on one device, a head on another."""

    def __init__(self, first: str, last: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8).to(first)
        self.head = nn.Linear(8, 10).to(last)
        self.last = last

    def forward(self, tokens: Tensor) -> Tensor:
        inside = self.embed(tokens.to(self.embed.weight.device)).mean(1)
        out: Tensor = self.head(inside.to(self.last))
        return out


@pytest.mark.parametrize(("first", "last"), [("cpu", "toy"), ("toy", "cpu")])
@pytest.mark.parametrize("loss_fn", [None, cross_entropy])
def test_labels_go_to_the_device_of_the_logits(
    first: str, last: str, loss_fn: Callable[..., Tensor] | None
) -> None:
    torch.manual_seed(0)
    model = Split(first, last)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    tokens, given = torch.randint(20, (12, 4)), torch.arange(12) % 10
    marks = take_fingerprint(model, optimizer)
    tracker = rote.track(
        model, optimizer, inputs=tokens, num_classes=10, given_labels=given, loss_fn=loss_fn
    )
    reading = tracker.probe()
    assert reading is not None
    assert reading.drop > 0
    assert find_differences(marks, take_fingerprint(model, optimizer)) == []
    alone = Split("cpu", "cpu")
    alone.load_state_dict(model.state_dict())
    steps = torch.optim.Adam(alone.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = rote.track(
            alone, steps, inputs=tokens, num_classes=10, given_labels=given, loss_fn=loss_fn
        ).probe()
    assert other is not None
    assert reading.drop == other.drop
