"""What `rote doctor --device` finds on the host, and what it says of devices that misbehave."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from rote.tracking import check_device
from rote.tracking.device_check import DeviceCheck, count_blocking_reads

pytestmark = pytest.mark.slow

SOUND = DeviceCheck(
    device=torch.device("cuda"),
    is_same=True,
    plain_noise=0.0,
    generators=2,
    are_generators_kept=True,
    time_ratio=1.4,
    memory_ratio=1.25,
    blocking_reads=5,
    repeat_noise=0.0,
)


def test_the_table_of_the_host_can_be_pasted() -> None:
    said = CliRunner().invoke(app, ["doctor", "--device", "cpu"])
    assert said.exit_code == 0, said.output
    lines = said.output.splitlines()
    assert "| bits with and without probes | same | same |" in lines
    assert "| random generators (1) | restored | restored |" in lines
    assert "| noise of a repeated pass ÷ loss | 0 | 0 |" in lines
    assert sum(line.startswith("| ") for line in lines) == 7
    assert "leave no trace on cpu" in lines[-1]


def test_a_model_of_the_user_is_trained_on_the_device() -> None:
    options = ["--model", "mlp", "--optimizer", "Adam", "--shape", "1,8,8", "--device", "cpu"]
    said = CliRunner().invoke(app, ["doctor", *options])
    assert said.exit_code == 0, said.output
    assert "mlp on cpu" in said.output


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="'nodevice' cannot be used: torch .* finds"):
        check_device("nodevice")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_cuda_device_the_doctor_says_so_in_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rote", "doctor", "--device", "cuda"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: Device 'cuda' cannot be used: torch")


def test_nondeterministic_device_is_distinguished_from_a_trace() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * (1 + os.urandom(1)[0] / 2**16)

    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = nn.Sequential(nn.Linear(32, 16), Noisy(), nn.Linear(16, 10))
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    found = check_device("cpu", make)
    assert found.plain_noise > 0
    assert found.repeat_noise > 0
    assert found.is_sound
    assert "two trainings differ by" in found.rows()[0][1]


def test_a_change_by_the_probe_is_found() -> None:
    assert SOUND.is_sound
    assert not replace(SOUND, is_same=False).is_sound
    assert replace(SOUND, is_same=False).rows()[0][1] == "DIFFERENT"
    assert not replace(SOUND, are_generators_kept=False).is_sound
    found = {what: value for what, value, _ in SOUND.rows()}
    assert found["peak memory of a probe ÷ step"] == "1.25"
    assert found["blocking reads per probe"] == "5"


def test_reads_are_counted_once_and_for_their_device() -> None:
    """More of them on a device that counts itself: tests/device."""
    numbers = torch.arange(4.0)
    host = torch.device("cpu")
    assert count_blocking_reads(lambda: numbers.sum().item(), host).total() == 1
    assert count_blocking_reads(lambda: torch.equal(numbers, numbers), host).total() == 1
    assert count_blocking_reads(lambda: numbers + 1, host).total() == 0
    assert count_blocking_reads(numbers.tolist, torch.device("meta")).total() == 0
