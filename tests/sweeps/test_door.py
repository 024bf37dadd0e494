"""What other rooms use of the sweeps is there, and starting one loads no torch."""

import subprocess
import sys

import pytest

from rote import sweeps

pytestmark = pytest.mark.slow


def test_every_exported_name_exists() -> None:
    for name in sweeps._HOMES:
        assert getattr(sweeps, name) is not None


def test_a_sweep_starts_without_torch() -> None:
    code = (
        "import sys; from rote.sweeps import LocalExecutor, SearchSpace, Sweep; "
        "list(SearchSpace.from_dict({'grid': {'seed': [0, 1]}})); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
