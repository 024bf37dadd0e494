"""Rules for devices that need none: generators of several, and where copies are kept."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import rote
from rote.snapshot import tensors

FAKE_DEVICE = """
import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

class Device:
    states = [torch.tensor([1], dtype=torch.uint8), torch.tensor([2], dtype=torch.uint8)]
    is_started = True
    def is_available(self): return True
    def is_initialized(self): return self.is_started
    def device_count(self): return 2
    def current_device(self): return 0
    def _is_in_bad_fork(self): return False
    def manual_seed_all(self, seed): pass
    def get_rng_state(self, device=0): return self.states[device].clone()
    def set_rng_state(self, state, device=0): self.states[device] = state

device = Device()
_setup_privateuseone_for_python_backend("toy", device)
import rote
from rote.snapshot import RandomState
from rote.snapshot.fingerprint import find_differences, take_fingerprint

model = torch.nn.Linear(2, 2)
before, state = take_fingerprint(model), RandomState()
device.states[1] = torch.tensor([9], dtype=torch.uint8)
assert find_differences(before, take_fingerprint(model)) == ["random state of the accelerator"]
state.restore()
assert [int(entry) for entry in device.states] == [1, 2], device.states
assert find_differences(before, take_fingerprint(model)) == []
found = rote.tracking.check_device("cpu")
assert (found.generators, found.are_generators_kept, found.is_same) == (3, True, True)
try:
    rote.tracking.check_device("toy")  # it has generators, but holds no tensors
except rote.errors.InputError as error:
    assert "finds cpu and toy on this machine" in str(error), error
else:
    raise AssertionError
device.is_started = False
before = take_fingerprint(model)
assert "random state of the accelerator" not in before
"""


@pytest.mark.slow
def test_generators_of_every_accelerator_are_restored_and_checked() -> None:
    """In a process of its own, which a made-up device changes for good."""
    done = subprocess.run(
        [sys.executable, "-c", FAKE_DEVICE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("write", [lambda t: t.data.add_(1), lambda t: None])
def test_unchanged_tensors_are_judged_equally_on_host_and_device(
    write: Callable[[Tensor], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [torch.randn(3), torch.randn(4).bfloat16(), torch.arange(5)]
    values = tensors.TensorValues(kept)
    write(kept[1])
    on_host = values.is_untouched()
    monkeypatch.setattr(tensors, "_is_on_host", lambda _: False)
    assert values.is_untouched() == on_host


def test_copies_can_be_kept_on_another_device() -> None:
    model = nn.Linear(3, 2)
    before = [parameter.clone() for parameter in model.parameters()]
    snapshot = rote.snapshot.Snapshot(model, device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    snapshot.restore()
    assert all(map(torch.equal, before, model.parameters()))
