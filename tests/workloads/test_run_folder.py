"""What lies beside the journal of a run."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from rote.errors import DamagedStateWarning, RunExistsError
from rote.workloads import RunSpec
from rote.workloads.run_folder import RunFolder


def test_empty_table_in_one_spec_is_compared_by_field(tmp_path: Path) -> None:
    plain = RunSpec.from_dict({"architecture": {"name": "mlp"}})
    wide = RunSpec.from_dict({"architecture": {"name": "mlp", "options": {"width": 64}}})
    RunFolder(tmp_path, plain).describe({}, finished=False)
    with pytest.raises(RunExistsError, match=r"differs in architecture\.options\.width\. Choose"):
        RunFolder(tmp_path, wide).examine()


LABELS = {"labels": np.arange(5), "train": np.arange(4)}


def test_changed_files_beside_the_journal_are_rewritten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, RunSpec.from_dict({"architecture": "mlp", "epochs": 3}))
    folder.record(LABELS)
    whole = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder.check_record(LABELS)
    for name, damage in {
        "spec.toml": whole["spec.toml"].replace(b"epochs = 3", b"epochs = 4"),
        "labels.npz": whole["labels.npz"][:-1],
    }.items():
        for content in (damage, None):
            if content is None:
                (tmp_path / name).unlink()
            else:
                (tmp_path / name).write_bytes(content)
            with pytest.warns(DamagedStateWarning, match=f"{name} was changed or removed"):
                folder.check_record(LABELS)
            assert (tmp_path / name).read_bytes() == whole[name]


def test_a_disk_that_is_full_while_a_state_is_saved_says_so(tmp_path: Path) -> None:
    code = """
import resource, signal, sys, torch
from pathlib import Path
from rote.workloads.run_folder import SavedStates
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
states = SavedStates(Path(sys.argv[1]))
states.save({"a": torch.zeros(10)})
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    states.save({"a": torch.zeros(100_000)})
except OSError as error:
    print(error.strerror, len(states.load()["a"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["File", "too", "large", "10"]


def test_ctrl_c_at_any_write_of_a_state_keeps_the_state_before(tmp_path: Path) -> None:
    code = """
import signal, sys, torch
from pathlib import Path
from rote.workloads import run_folder
write, count = run_folder._HashingFile.write, [0]
def interrupted(self, part):
    count[0] -= 1
    if count[0] == 0:
        signal.raise_signal(signal.SIGINT)
    return write(self, part)
run_folder._HashingFile.write = interrupted
states = run_folder.SavedStates(Path(sys.argv[1]))
states.save({"a": torch.zeros(10)})
writes = -count[0]
for moment in range(1, writes + 1):
    count[0] = moment
    try:
        states.save({"a": torch.zeros(20)})
    except KeyboardInterrupt:
        print(len(states.load()["a"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"10"}
