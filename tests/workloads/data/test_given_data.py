"""Data that are handed over in Python are trained on like those of a file."""

from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError, RunExistsError
from rote.workloads import suggest_spec, train
from rote.workloads.data import load, make_data_section, read_data
from rote.workloads.spec import FieldError, FolderData, NamedData, NpzData, RunSpec, TableData
from tests.workloads.small_runs import numbers, small_spec, write_npz

RNG = np.random.default_rng(0)
SIZES = RNG.normal(size=60).astype(np.float32)
TABLE = {"size": SIZES.tolist(), "width": (SIZES**2).tolist(), "label": ["a", "b", "c"] * 20}
ROWS = np.stack([SIZES, np.asarray(TABLE["width"], np.float32)], axis=1)


def test_a_table_trains_like_the_arrays_that_it_holds(tmp_path: Path) -> None:
    arrays = {"x_train": ROWS, "y_train": np.arange(60) % 3}
    path = write_npz(tmp_path / "a.npz", **arrays)
    spec = small_spec(data={"name": "npz", "path": path})
    expected = numbers(train(spec).readings)
    for data in (TABLE, arrays, path, read_data(TABLE)):
        assert numbers(train(spec, data=data).readings) == expected


def test_a_run_is_identified_by_its_data(tmp_path: Path) -> None:
    spec = small_spec(data={"name": "digits", "train_size": 50})
    first = train(spec, tmp_path / "run", data=TABLE)
    again = train(spec, tmp_path / "run", data=TABLE)
    assert numbers(again.readings) == numbers(first.readings)
    assert again.model is None  # it was over
    assert first.description["data"]["class_names"] == ["a", "b", "c"]
    other = TABLE | {"size": [0.0, *TABLE["size"][1:]]}
    with pytest.raises(RunExistsError, match="differs in data.fingerprint"):
        train(spec, tmp_path / "run", data=other)
    saved = RunSpec.from_toml(tmp_path / "run" / "spec.toml")
    assert saved.data.train_size == 50  # as in the spec
    with pytest.raises(FieldError, match=r"`data.name` .* from Python\. Pass them again"):
        train(saved)


def test_a_first_spec_fits_the_data(tmp_path: Path) -> None:
    assert suggest_spec("digits").architecture.name == "cnn"
    run = train(suggest_spec(TABLE), data=TABLE)
    assert len(run.readings) == 30
    path = write_npz(tmp_path / "own.npz", x_train=ROWS, y_train=np.arange(60) % 3)
    spec = suggest_spec(path)
    assert (spec.name, spec.architecture.name, spec.data) == ("own", "mlp", NpzData(path=path))


@pytest.mark.parametrize(
    ("place", "section"),
    [
        ("a.CSV", TableData(path="a.CSV", label="y")),
        ("b.parquet", TableData(path="b.parquet", label="y")),
        ("c.npz", NpzData(path="c.npz", labels="y")),
    ],
)
def test_a_path_says_what_it_is(place: str, section: object) -> None:
    assert make_data_section(place, label="y") == section


def test_names_and_folders_are_data_too() -> None:
    assert make_data_section("mnist") == NamedData(name="mnist")
    assert make_data_section("some/folder") == FolderData(path="some/folder")
    assert RunSpec.from_dict({"data": {"path": "a.tsv"}}).data == TableData(path="a.tsv")
    with pytest.raises(FieldError, match=r"`data.label` is not a field"):
        make_data_section("some/folder", label="y")
    with pytest.raises(FieldError, match=r"`data.name` is required: one of digits, .*table, fold"):
        RunSpec.from_dict({"data": {"seed": 1}})


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="`data` has no array `y_train`.* x_train"):
        read_data({"x_train": ROWS})
    ragged = np.array([np.zeros(2), np.zeros(3)], dtype=object)
    with pytest.raises(InputError, match="`x_train` to hold numbers or texts, got object"):
        read_data({"x_train": ragged, "y_train": [0, 1]})


def test_unknown_given_data_cannot_be_loaded() -> None:
    section = RunSpec.from_dict({"data": {"name": "given", "fingerprint": "ab"}}).data
    with pytest.raises(FieldError, match=r"or save them and name the file"):
        load(section)
