"""Quantized weights and optimizers of real packages: what hangs on tensors is restored."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rote
from rote.errors import InterferenceError
from rote.snapshot.fingerprint import find_differences, take_fingerprint

pytestmark = pytest.mark.slow


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, *, probed: bool, tracked_after: int = 0
) -> list[Tensor]:
    torch.manual_seed(1)
    x, y = torch.randn(8, 16), torch.arange(8) % 3
    tracker = None
    for step in range(3):
        if probed and step == tracked_after:
            # With given labels there are predictions, in eval mode.
            policy = rote.ProbePolicy(verify=True)
            tracker = rote.track(
                model, optimizer, inputs=x, num_classes=3, given_labels=y, policy=policy
            )
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).float(), y).backward()
        optimizer.step()
        if tracker is not None:
            assert tracker.probe() is not None
    return [model(x).detach().float(), *(p.detach().float() for p in model.parameters())]


def quantized_base() -> tuple[nn.Module, torch.optim.Optimizer]:
    bitsandbytes: Any = pytest.importorskip("bitsandbytes")
    torch.manual_seed(0)
    base = bitsandbytes.nn.Linear8bitLt(16, 16, has_fp16_weights=False)
    base.load_state_dict({"weight": torch.randn(16, 16), "bias": torch.zeros(16)})
    base = base.to("cpu")
    model = nn.Sequential(base, nn.ReLU(), nn.Linear(16, 3))
    for parameter in base.parameters():
        parameter.requires_grad_(False)
    return model, torch.optim.AdamW(model[2].parameters(), lr=1e-2)


def test_a_base_in_8_bits_computes_the_same_after_a_probe() -> None:
    bare, probed = (train(*quantized_base(), probed=is_it) for is_it in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(bare, probed, strict=True))


def test_attributes_of_a_quantized_weight_are_seen_and_restored() -> None:
    model, optimizer = quantized_base()
    before = take_fingerprint(model, optimizer)
    with rote.preserved(model, optimizer, verify=True):
        model(torch.randn(8, 16))
        assert find_differences(before, take_fingerprint(model, optimizer)) != []
    assert find_differences(before, take_fingerprint(model, optimizer)) == []


def test_a_base_in_4_bits_computes_the_same_after_a_probe() -> None:
    bitsandbytes: Any = pytest.importorskip("bitsandbytes")

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        base = bitsandbytes.nn.Linear4bit(64, 64, quant_type="nf4", compute_dtype=torch.float32)
        base.load_state_dict({"weight": torch.randn(64, 64), "bias": torch.zeros(64)})
        model = nn.Sequential(nn.Linear(16, 64), base.to("cpu"), nn.Linear(64, 3))
        for parameter in model[1].parameters():
            parameter.requires_grad_(False)
        trained = [p for p in model.parameters() if p.requires_grad]
        return model, torch.optim.AdamW(trained, lr=1e-2)

    bare, probed = (train(*build(), probed=is_it) for is_it in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(bare, probed, strict=True))


@pytest.mark.filterwarnings("ignore::rote.errors.DominatedMeanWarning")
@pytest.mark.parametrize("is_nested", [False, True])
def test_4_bits_that_a_pass_in_eval_mode_repacks_are_restored(
    is_nested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on CPUs with AVX512-BF16, where predictions replace the weight and its QuantState."""
    bitsandbytes: Any = pytest.importorskip("bitsandbytes")
    functional = bitsandbytes.functional

    def multiply(a: Tensor, b: Tensor, *, state: Any, **_: object) -> Tensor:
        weight, own = functional._convert_weight_packed_for_cpu_inverse(b, copy.copy(state))
        product: Tensor = a @ functional.dequantize_4bit(weight, own).to(a.dtype).t()
        return product

    monkeypatch.setattr(functional, "gemv_4bit", multiply)  # its kernel needs such a CPU

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        base = bitsandbytes.nn.Linear4bit(
            64, 64, quant_type="nf4", compute_dtype=torch.float32, compress_statistics=is_nested
        )
        base.load_state_dict({"weight": torch.randn(64, 64), "bias": torch.zeros(64)})
        model = nn.Sequential(nn.Linear(16, 64), base.to("cpu"), nn.Linear(64, 3))
        base.support_avx512bf16_for_cpu = True
        model.requires_grad_(False)[2].requires_grad_(True)
        return model, torch.optim.AdamW(model[2].parameters(), lr=1e-2)

    model, _ = build()
    model.eval()(torch.randn(8, 16))
    assert model[1].weight.quant_state.packing_format_for_cpu  # type: ignore[index, union-attr]
    bare, probed = (train(*build(), probed=is_it) for is_it in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(bare, probed, strict=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW4bit"])
@pytest.mark.parametrize("tracked_after", [0, 2])
def test_optimizers_with_quantized_state_can_be_probed(name: str, tracked_after: int) -> None:
    optim: Any = pytest.importorskip("torchao.optim")

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 3))
        return model, getattr(optim, name)(model.parameters(), lr=1e-2, block_size=128)

    bare, probed = (
        train(*build(), probed=is_it, tracked_after=tracked_after) for is_it in (False, True)
    )
    assert all(torch.equal(one, other) for one, other in zip(bare, probed, strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Please use quant_min:UserWarning")
def test_fake_quantization_that_resizes_its_scales_at_the_first_pass_is_restored() -> None:
    quantization: Any = torch.ao.quantization

    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        layers = [nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)]
        model = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub())
        model.qconfig = quantization.get_default_qat_qconfig("x86")
        quantization.prepare_qat(model, inplace=True)
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    bare, probed = (train(*build(), probed=is_it) for is_it in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(bare, probed, strict=True))


class Scaled(Tensor):
    """A weight of a library's own kind, whose scale is set at the first use."""


class Lazy(nn.Module):
    """Moves the scale of its weight away at the first pass, as LLM.int8 does."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.eye(4).as_subclass(Scaled)
        weight.scale = torch.full((4,), 2.0)  # type: ignore[attr-defined]
        self.register_buffer("weight", weight)
        self.head = nn.Linear(4, 3)
        self.scale: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.scale is None:
            self.scale, self.weight.scale = self.weight.scale, None  # type: ignore[assignment]
        weight = self.weight.as_subclass(Tensor)
        return self.head(x @ weight * self.scale)  # type: ignore[no-any-return]


def test_a_tensor_that_the_first_pass_replaces_is_restored() -> None:
    model = Lazy()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    scale = model.weight.scale
    tracker = rote.track(model, optimizer, inputs=torch.randn(6, 4), num_classes=3)
    assert tracker.probe() is not None
    assert model.weight.scale is scale
    assert model.scale is None


def test_a_first_trial_that_changes_the_loss_is_an_error() -> None:
    class Counter:  # foreign: what it holds is not copied
        count = 0

    Counter.__module__ = "torch.somewhere"
    counter = Counter()

    class Drifting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.counter = nn.Linear(4, 3), counter

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(x) * (1 + min(self.counter.count, 1))
            self.counter.count = min(self.counter.count + 1, 9)
            return out

    model = Drifting()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(InterferenceError, match="counter"):
        rote.track(model, optimizer, inputs=torch.randn(6, 4), num_classes=3)
