"""What other rooms use of the workloads is there, and listing data loads no torch."""

import subprocess
import sys

import pytest

from rote import workloads


def test_every_exported_name_exists() -> None:
    for name in workloads._HOMES:
        assert getattr(workloads, name) is not None
    with pytest.raises(AttributeError, match="'rote.workloads' has no attribute 'nothing'"):
        workloads.nothing  # noqa: B018


def test_specs_and_lists_of_data_need_no_torch() -> None:
    code = (
        "import sys; from rote.workloads import RunSpec, list_datasets; "
        "RunSpec(); list_datasets(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
