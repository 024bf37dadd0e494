"""What lies beside the journal of a run."""

from pathlib import Path

import pytest

from rote.errors import RunExistsError
from rote.workloads import RunSpec
from rote.workloads.run_folder import RunFolder


def test_a_table_that_is_empty_in_one_spec_is_told_by_its_fields(tmp_path: Path) -> None:
    plain = RunSpec.from_dict({"architecture": {"name": "mlp"}})
    wide = RunSpec.from_dict({"architecture": {"name": "mlp", "options": {"width": 64}}})
    RunFolder(tmp_path, plain).describe({}, finished=False)
    with pytest.raises(RunExistsError, match=r"differs in architecture\.options\.width\. Choose"):
        RunFolder(tmp_path, wide).examine()
