"""The rules for devices hold on an accelerator of our own, made of torch's PrivateUse1."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.device.toy import COMPILER

pytestmark = pytest.mark.slow


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to build the device with")
@pytest.mark.skipif(sys.platform != "linux", reason="the device is built for Linux")
def test_rules_for_devices_hold_on_a_device_of_our_own() -> None:
    """In a process of its own, which the device changes for good."""
    cases = Path(__file__).with_name("cases.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(cases)], capture_output=True, text=True, check=False, cwd=cases.parents[2]
    )
    assert done.returncode == 0, done.stdout + done.stderr
