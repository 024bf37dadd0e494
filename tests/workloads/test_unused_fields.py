"""An option that is accepted and ignored is a lie: every field of a spec has to be read."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from rote.errors import InputError
from rote.workloads.data.lookup import load
from rote.workloads.loop import train
from rote.workloads.spec import Checkpoints, Data, FolderData, NamedData, Optimizer, RunSpec
from rote.workloads.spec.data_sections import Noise
from rote.workloads.spec.run_spec import Objective, Schedule
from rote.workloads.spec.section import Section
from tests.workloads.small_runs import small_spec, write_npz

SECTIONS = [
    RunSpec,
    *(
        arm
        for union in (Data, Noise, Objective, Optimizer, Schedule, Checkpoints)
        for arm in get_args(union)
    ),
    *(type(getattr(RunSpec(), name)) for name in ("architecture", "probe")),
]
ITSELF = {
    "check",
    "__post_init__",
    "to_dict",
    "identity_fields",
    "<dictcomp>",
    "<genexpr>",
    "<lambda>",
}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Which fields of which sections are read, other than by the section itself."""
    found: set[tuple[str, str]] = set()

    def look_up(self: Section, name: str) -> Any:
        caller = sys._getframe(1).f_code
        generated = caller.co_filename.startswith("<")
        if caller.co_name not in ITSELF and not generated:
            found.add((type(self).__name__, name))
        return object.__getattribute__(self, name)

    monkeypatch.setattr(Section, "__getattribute__", look_up)
    return found


def runs(folder: Path) -> list[RunSpec]:
    rows = np.random.default_rng(0).normal(size=(40, 3))
    path = write_npz(folder / "a.npz", x_train=rows, y_train=np.arange(40) % 3)
    own = {"name": "npz", "path": path, "inputs": "features"}
    instance = {"model": "instance", "rate": 0.1}
    asymmetric = {"model": "asymmetric", "rate": 0.2, "class_map": "mnist"}
    best = {"keep": "best", "metric": "train_accuracy"}
    cells = [f"{row[0]},{number % 3}" for number, row in enumerate(rows)]
    (folder / "a.csv").write_text("\n".join(["size,label", *cells]))
    table = {"path": str(folder / "a.csv")}
    (folder / "held").mkdir()
    np.save(folder / "held" / "rows.npy", np.arange(6))
    held = {"holdout_rows": str(folder / "held" / "rows.npy"), "batch": 6}
    return [
        small_spec(epochs=1),
        small_spec(epochs=1, probe=held),
        small_spec(epochs=1, data=own, noise="none", optimizer="adam", schedule="none"),
        small_spec(epochs=1, data=own, noise=instance, objective="mixup", schedule="exponential"),
        small_spec(epochs=1, noise=asymmetric, objective="cdr", checkpoints=best),
        small_spec(epochs=1, objective="nce-rce"),
        small_spec(epochs=1, data=table),
        small_spec(epochs=1, probe={"folds": 2, "fold": 1, "batch": 8}),
    ]


def test_every_field_is_read_by_a_run(tmp_path: Path, reads: set[tuple[str, str]]) -> None:
    for number, spec in enumerate(runs(tmp_path)):
        train(spec, tmp_path / str(number))
    train(small_spec(epochs=1, data={"name": "digits"}), data=tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"image or \.txt files in at least 2 subfolders"):
        load(FolderData(path=str(tmp_path)))
    write_npz(tmp_path / "cifar10n.npz", x_train=np.zeros((4, 32, 32, 3)), y_train=np.arange(4))
    with pytest.raises(InputError, match=r"`data.labels` names no labels"):
        load(NamedData(name="cifar10n", labels="worse", source="local"), tmp_path)
    known = {(section.__name__, entry.name) for section in SECTIONS for entry in fields(section)}
    # What only says which section it is has been read when the section was made; folders and
    # files of one's own have one name each, and are prepared like sets with a name.
    tags = {(section.__name__, str(section.tag)) for section in SECTIONS}
    shared = {("FolderData", name) for name in ("seed", "train_size", "test_size", "crop", "flip")}
    identity = {("GivenData", "fingerprint")}
    assert known - reads - tags - shared - identity == set()


def test_the_test_can_fail(reads: set[tuple[str, str]]) -> None:
    spec = small_spec()
    assert ("RunSpec", "epochs") not in reads
    assert spec.epochs == 3
    assert ("RunSpec", "epochs") in reads
