"""What a probe copies, passes at once, and does when memory runs out."""

import warnings
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import rote
from rote.errors import (
    InputError,
    InterferenceError,
    MicroBatchWarning,
    ProbeMemoryError,
    SkippedReadingWarning,
)
from rote.snapshot import Snapshot
from rote.snapshot.fingerprint import find_differences, take_fingerprint

X = torch.randn(24, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(24) % 3


def with_frozen_base() -> tuple[nn.Sequential, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 512), nn.Tanh(), nn.Linear(512, 3))
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return model, torch.optim.Adam(trained, lr=0.01)


class Allocations(TorchDispatchMode):
    """Counts the clones of tensors of a given shape."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape, self.count = shape, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name == "aten::clone" and args[0].shape == self.shape:
            self.count += 1
        return func(*args, **(kwargs or {}))


def test_frozen_parameters_are_not_copied() -> None:
    model, optimizer = with_frozen_base()
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3)
    with Allocations(model[0].weight.shape) as clones:  # type: ignore[union-attr]
        assert tracker.probe() is not None
    assert clones.count == 0


def test_training_with_a_frozen_base_is_bit_identical() -> None:
    def train(*, probed: bool) -> list[Tensor]:
        model, optimizer = with_frozen_base()
        tracker = rote.track(model, optimizer, inputs=X, num_classes=3) if probed else None
        for step in range(4):
            if step == 2:  # unfrozen on the way
                model[0].weight.requires_grad_(True)  # type: ignore[operator, union-attr]
                optimizer.add_param_group({"params": [model[0].weight]})
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
            if tracker is not None:
                tracker.probe()
        return [parameter.detach() for parameter in model.parameters()]

    assert all(map(torch.equal, train(probed=False), train(probed=True)))


class Packed(nn.Module):
    """A layer of integers in a buffer, as GPTQ and AWQ have them, and a head that trains."""

    weight: Tensor

    def __init__(self, *, writes: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("weight", torch.randint(-8, 8, (1024, 1024), dtype=torch.int8))
        self.head, self.writes = nn.Linear(1024, 3), writes

    def forward(self, x: Tensor) -> Tensor:
        if self.writes:
            self.weight[0] += 1
        weight = self.weight[:, :8].float()
        out: Tensor = self.head(torch.tanh(x @ weight.t() / 8))
        return out


def test_quantized_weights_in_buffers_are_not_copied() -> None:
    model = Packed()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3)
    with Allocations(model.weight.shape) as clones:
        assert tracker.probe() is not None
    assert clones.count == 0
    before = take_fingerprint(model, optimizer)
    model.weight[5, 5] += 1
    assert find_differences(before, take_fingerprint(model, optimizer)) == ["buffer weight"]


def test_a_buffer_of_many_integers_that_passes_write_to_is_restored() -> None:
    def train(*, probed: bool) -> tuple[list[Tensor], float]:
        model = Packed(writes=True)
        optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
        policy = rote.ProbePolicy(verify=True)
        tracker = None
        if probed:
            tracker = rote.track(model, optimizer, inputs=X, num_classes=3, policy=policy)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X), Y).backward()
            optimizer.step()
            reading = None if tracker is None else tracker.probe()
            assert tracker is None or reading is not None
        start = 0.0 if tracker is None else tracker.start["susceptibility"]
        return [model.weight, *model.head.parameters()], start

    (bare, _), (found, start) = train(probed=False), train(probed=True)
    assert all(map(torch.equal, bare, found))
    model = Packed(writes=True)
    sgd = torch.optim.SGD(model.head.parameters(), lr=0.1)
    assert start == rote.track(model, sgd, inputs=X, num_classes=3).probe().drop  # type: ignore[union-attr]


class Repacking(nn.Module):
    """A frozen weight that passes in eval mode replace, as bitsandbytes does on some CPUs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(8, 8), requires_grad=False)
        self.head, self.is_packed = nn.Linear(8, 3), False

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and not self.is_packed:
            self.weight.data, self.is_packed = self.weight.data.t().contiguous(), True
        out: Tensor = self.head(x @ (self.weight.t() if self.is_packed else self.weight))
        return out


def test_a_frozen_weight_that_passes_repack_is_unpacked_before_every_pass() -> None:
    model = Repacking()
    with torch.no_grad():
        expected = model(X).argmax(1)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    policy = rote.ProbePolicy(batch=8)  # three passes over the holdout
    reading = rote.track(model, optimizer, inputs=X, num_classes=3, policy=policy).probe()
    assert reading is not None
    assert reading.predictions is not None
    assert reading.predictions.tolist() == expected.tolist()
    assert not model.is_packed


class Renormalizing(nn.Module):
    """A frozen embedding that every pass writes to, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8, max_norm=0.5)
        self.embed.weight.requires_grad_(False)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(self.embed(tokens).mean(1))
        return out


def test_a_frozen_parameter_that_passes_write_to_is_restored() -> None:
    torch.manual_seed(0)
    model = Renormalizing()
    before = model.embed.weight.clone()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    tokens = torch.randint(20, (6, 4))
    tracker = rote.track(model, optimizer, inputs=tokens, num_classes=3)
    assert torch.equal(model.embed.weight, before)
    assert tracker.probe() is not None
    assert torch.equal(model.embed.weight, before)
    model(tokens)
    assert not torch.equal(model.embed.weight, before)


def test_a_write_to_a_frozen_parameter_after_the_trial_is_an_error() -> None:
    model, optimizer = with_frozen_base()
    writes: list[bool] = []

    def loss(output: Tensor, labels: Tensor) -> Tensor:
        if writes:
            with torch.no_grad():
                model[0].bias.add_(1)  # type: ignore[operator, union-attr]
        return nn.functional.cross_entropy(output, labels)

    tracker = rote.track(model, optimizer, inputs=X, num_classes=3, loss_fn=loss)
    writes.append(True)
    with pytest.raises(InterferenceError, match=r"could not restore frozen .*0\.bias"):
        tracker.probe()


@pytest.mark.filterwarnings("ignore::rote.errors.UnrepeatablePassWarning")
def test_a_write_through_data_is_restored_by_the_trial() -> None:
    model, optimizer = with_frozen_base()

    def loss(output: Tensor, labels: Tensor) -> Tensor:
        model[0].bias.data.add_(1)  # type: ignore[operator, union-attr]
        return nn.functional.cross_entropy(output, labels)

    # The trial keeps it, since torch sees the write; the checksum agrees.
    before = model[0].bias.clone()  # type: ignore[operator, union-attr]
    rote.track(model, optimizer, inputs=X, num_classes=3, loss_fn=loss)
    assert torch.equal(model[0].bias, before)  # type: ignore[arg-type, union-attr]


def test_a_snapshot_of_everything_copies_frozen_parameters() -> None:
    model, _ = with_frozen_base()
    before = model[0].weight.clone()  # type: ignore[operator, union-attr]
    with rote.preserved(model, verify=True), torch.no_grad():
        model[0].weight.zero_()  # type: ignore[operator, union-attr]
    assert torch.equal(model[0].weight, before)  # type: ignore[arg-type, union-attr]
    assert len(Snapshot(model).frozen) == 0


def reading_of(policy: rote.ProbePolicy, *, dropout: float = 0.0) -> rote.Reading:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    tracker = rote.track(
        model, optimizer, inputs=X, num_classes=3, given_labels=Y, policy=policy, seed=3
    )
    reading = tracker.probe()
    assert reading is not None
    return reading


@pytest.mark.parametrize("micro_batch", [1, 5, 12])
def test_micro_batches_give_the_reading_of_the_whole_batch(micro_batch: int) -> None:
    whole = reading_of(rote.ProbePolicy(batch=12))
    pieces = reading_of(rote.ProbePolicy(batch=12, micro_batch=micro_batch))
    assert pieces.loss_before == pytest.approx(whole.loss_before, rel=1e-6)
    assert pieces.drop == pytest.approx(whole.drop, rel=1e-4)
    assert pieces.drop_plain == pytest.approx(whole.drop_plain, rel=1e-3)
    assert pieces.validation_accuracy == whole.validation_accuracy


def test_micro_batches_draw_the_same_masks_before_and_after_the_step() -> None:
    policy = rote.ProbePolicy(batch=12, micro_batch=4, plain=None, optimizer=rote.PlainStep(1e-12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reading = reading_of(policy, dropout=0.5)
    assert abs(reading.drop) < 1e-6


def test_micro_batches_count_labels_that_are_not_ignored() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            out: Tensor = self.head(self.embed(tokens))
            return out

    torch.manual_seed(0)
    model = Tokens()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens, labels = torch.randint(9, (6, 5)), torch.randint(3, (6, 5))
    labels[:2, 1:], labels[3] = -100, -100
    found = [
        rote.probe.Probe(model, optimizer, 3, policy=rote.ProbePolicy(micro_batch=size)).measure(
            tokens, labels
        )
        for size in (None, 1, 2, 4)
    ]
    for other in found[1:]:
        assert other.loss_before == pytest.approx(found[0].loss_before, rel=1e-6)
        assert other.losses_after["live"] == pytest.approx(found[0].losses_after["live"], rel=1e-6)


@pytest.mark.filterwarnings("ignore::rote.errors.UncopiedStateWarning")
def test_models_with_batch_statistics_keep_the_whole_batch_and_say_so() -> None:
    sizes: SimpleQueue[int] = SimpleQueue()  # which a probe does not restore

    class Spy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sizes.put(len(x))
            return x

    model = nn.Sequential(Spy(), nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    policy = rote.ProbePolicy(batch=12, micro_batch=4, record_predictions=False)
    with pytest.warns(MicroBatchWarning, match="'2' .BatchNorm1d. normalizes by batch statistics"):
        tracker = rote.track(model, optimizer, inputs=X, num_classes=3, policy=policy)
    while not sizes.empty():
        sizes.get()
    tracker.probe()
    assert {sizes.get() for _ in range(sizes.qsize())} == {12}


@pytest.mark.filterwarnings("ignore::rote.errors.UncopiedStateWarning")
@pytest.mark.parametrize(("micro_batch", "pieces"), [(None, 1), (4, 3)])
def test_a_trial_passes_s_tilde_through_the_model_three_times(
    micro_batch: int | None, pieces: int
) -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
    passes: SimpleQueue[int] = SimpleQueue()  # which a probe does not restore
    model.register_forward_pre_hook(lambda _, taken: passes.put(len(taken[0])))
    policy = rote.ProbePolicy(batch=12, micro_batch=micro_batch, plain=None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rote.track(model, optimizer, inputs=X[:12], num_classes=3, policy=policy)
    assert passes.qsize() == 3 * pieces


def out_of_memory(kind: str) -> Exception:
    if kind == "cpu":
        return RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")
    return torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_training_continues_when_a_probe_runs_out_of_memory(kind: str) -> None:
    model, optimizer = with_frozen_base()
    fails: list[bool] = []

    def loss(output: Tensor, labels: Tensor) -> Tensor:
        if fails and output.requires_grad:
            raise out_of_memory(kind)
        return nn.functional.cross_entropy(output, labels)

    policy = rote.ProbePolicy(batch=12, micro_batch=4, resample=True)
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3, loss_fn=loss, policy=policy)
    twin = rote.track(model, optimizer, inputs=X, num_classes=3, loss_fn=loss, policy=policy)
    assert tracker.probe() is not None
    assert twin.probe() is not None
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fails.append(True)
    with pytest.warns(SkippedReadingWarning, match=r"micro_batch \(now 4\) or batch \(now 12\)"):
        assert tracker.probe() is None
    fails.clear()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    reading, other = tracker.probe(), twin.probe()
    assert reading is not None
    assert other is not None
    assert reading.step == 3  # the skipped one counts as a step
    assert reading.loss_before == other.loss_before  # and nothing was drawn for it


class Full(rote.Signal):
    """Runs out of memory at its second reading."""

    name, columns = "full", ("times_read",)

    def __init__(self) -> None:
        self.count = 0

    def read(self, epoch: int) -> Mapping[str, float]:
        self.count += 1
        if self.count == 2:
            raise out_of_memory("cuda")
        return {"times_read": float(self.count)}


def test_training_continues_when_a_signal_runs_out_of_memory() -> None:
    model, optimizer = with_frozen_base()
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3, signals=[Full()])
    assert tracker.probe() is not None
    with pytest.warns(SkippedReadingWarning, match="step 2 is skipped; training continues"):
        assert tracker.probe() is None
    reading = tracker.probe()
    assert reading is not None
    assert [entry.step for entry in tracker.readings] == [1, 3]


def test_too_little_memory_when_tracking_begins_is_an_error() -> None:
    model, optimizer = with_frozen_base()

    def loss(*_: object) -> Tensor:
        raise out_of_memory("cuda")

    with pytest.raises(ProbeMemoryError, match="24 samples at once.*micro_batch.*snapshot_device"):
        rote.track(model, optimizer, inputs=X, num_classes=3, loss_fn=loss)


def test_master_weights_of_an_optimizer_are_refused_with_the_reason() -> None:
    model = nn.Linear(8, 3).to(torch.bfloat16)
    masters = [parameter.detach().float().requires_grad_() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1)
    with pytest.raises(InputError, match="float32 master copies"):
        rote.track(model, optimizer, inputs=X, num_classes=3)


class Mastered(torch.optim.Optimizer):
    """Gradient descent on float32 copies that are kept in its state, written back at each step."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.05})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if "master" not in state:
                    state["master"] = parameter.detach().float().clone()
                state["master"].add_(parameter.grad.float(), alpha=-group["lr"])
                parameter.copy_(state["master"])


def test_master_weights_in_the_state_of_an_optimizer_are_restored() -> None:
    drops: list[float] = []

    def train(*, probed: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Linear(8, 3).to(torch.bfloat16)
        optimizer, x = Mastered(model.parameters()), X.to(torch.bfloat16)
        tracker = rote.track(model, optimizer, inputs=x, num_classes=3) if probed else None
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x).float(), Y).backward()
            optimizer.step()
            if tracker is not None:
                reading = tracker.probe()
                assert reading is not None
                drops.append(reading.drop)
        return [*model.parameters(), *(state["master"] for state in optimizer.state.values())]

    assert all(map(torch.equal, train(probed=False), train(probed=True)))
    assert min(drops) > 0
