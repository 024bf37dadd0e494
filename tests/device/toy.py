"""A made-up accelerator, ``toy``: built from ``toy_device.cpp`` and registered with torch.

Importing this module changes the process for good; ``test_device.py`` does it in one of its own.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import Tensor

SOURCE = Path(__file__).with_name("toy_device.cpp")
COMPILER = shutil.which("c++")
DEVICE = torch.device("privateuseone")


class Toy:
    """What torch and rote ask the module of an accelerator for."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def get_device_name(self, device: object = None) -> str:
        return "Toy 1000"

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        torch.ops.toy.seed(seed)

    def get_rng_state(self, device: object = 0) -> Tensor:
        state: Tensor = torch.ops.toy.rng_state()
        return state

    def set_rng_state(self, state: Tensor, device: object = 0) -> None:
        torch.ops.toy.set_rng_state(state)

    def synchronize(self, device: object = None) -> None:
        """Do nothing: what is asked of the device is done at once."""

    def memory_allocated(self, device: object = None) -> int:
        return int(torch.ops.toy.allocated())

    def max_memory_allocated(self, device: object = None) -> int:
        return int(torch.ops.toy.peak())

    def reset_peak_memory_stats(self, device: object = None) -> None:
        torch.ops.toy.reset_peak()


def build() -> Path:
    """Compile the device, unless that has been done with this torch."""
    assert COMPILER is not None
    root = Path(torch.__file__).parent
    key = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"rote-toy-device-{os.getuid()}-{key}.so"
    if not built.exists():
        flags = ["-O0", "-std=c++20", "-fPIC", "-shared", f"-I{root / 'include'}"]
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        made = built.with_suffix(f".{os.getpid()}")
        libraries = [f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"]
        subprocess.run(
            [COMPILER, *flags, abi, str(SOURCE), "-o", str(made), *libraries], check=True
        )
        made.replace(built)
    return built


def register() -> Toy:
    """Make torch know the device."""
    torch.ops.load_library(build())
    torch.utils.rename_privateuse1_backend("toy")
    module = Toy()
    torch._register_device_module("toy", module)
    torch.ops.toy.start()
    return module
