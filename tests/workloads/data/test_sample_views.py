"""Samples of recorded runs, found again: the very ones, and only if the data are the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.errors import InputError
from rote.workloads.data import load
from rote.workloads.data.sample_views import MOST_PIXELS, view_samples
from rote.workloads.spec import NamedData
from tests.workloads.small_runs import small_spec, write_npz


def write_labels(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def described(source: object, inputs: str = "images", **data: object) -> dict[str, Any]:
    spec = small_spec(data=data, noise={"model": "none"}).to_dict()
    return {"data": {"inputs": inputs, "source": str(source)}, "spec": spec}


def test_digits_are_numbered_as_in_training(tmp_path: Path) -> None:
    data = load(NamedData(name="digits"))
    rows = np.arange(len(data.y_train))
    file = write_labels(tmp_path / "labels.npz", rows=rows, labels=data.y_train)
    found = view_samples(described("scikit-learn", name="digits"), file, {0: None, 1441: None})
    assert list(found) == [0, 1441]
    for sample, view in found.items():
        assert np.array_equal(view.image, data.x_train[sample])


@pytest.mark.parametrize("is_folder", [False, True])
def test_samples_of_arrays_are_counted_without_unlabeled_ones(
    tmp_path: Path, is_folder: bool
) -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, 5, 5, 3), dtype=np.uint8)
    arrays = {"x_train": x, "y_train": np.array([0, -1, 2, 1, -1, 0])}
    place = tmp_path / ("set" if is_folder else "set.npz")
    if is_folder:
        place.mkdir()
        for name, array in arrays.items():
            np.save(place / f"{name}.npy", array)
    else:
        write_npz(place, **arrays)
    file = write_labels(tmp_path / "labels.npz", rows=np.array([1, 3]), labels=np.array([2, 0]))
    found = view_samples(described(place, path=str(place)), file, {3: None, 1: None})
    for sample, row in ((1, 2), (3, 5)):  # the labeled ones are 0, 2, 3 and 5
        assert np.array_equal(found[sample].image, x[row])


def test_rows_of_a_table_have_their_inputs(tmp_path: Path) -> None:
    place = tmp_path / "reviews.csv"
    place.write_text("text,stars,label\ngood film,5,a\n,1,\nbad film,1,b\n")
    file = write_labels(tmp_path / "labels.npz", rows=[0, 1], labels=[0, 1])
    told = described(place, "features", path=str(place))
    assert view_samples(told, file, {2: None})[2].row == {"text": "bad film", "stars": "1"}


def test_files_of_a_folder_are_images_and_texts(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for kind in ("a", "b"):
        (tmp_path / kind).mkdir()
        pillow.new("RGB", (300, 150), "red").save(tmp_path / kind / "1.png")
    (tmp_path / "a" / "2.txt").write_text("some words")
    told = described(tmp_path, path=str(tmp_path))
    found = view_samples(told, tmp_path / "labels.npz", {0: "a/1.png", 5: "a/2.txt"})
    assert found[0].image is not None
    assert found[0].image.shape == (MOST_PIXELS // 2, MOST_PIXELS, 3)
    assert found[0].image[0, 0].tolist() == [255, 0, 0]
    assert found[5].text == "some words"
    with pytest.raises(InputError, match="File not found: .*gone.png"):
        view_samples(told, tmp_path / "labels.npz", {0: "a/gone.png"})


def test_moved_data_are_found_and_changed_data_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_labels(tmp_path / "labels.npz", rows=np.array([0]), labels=np.array([1]))
    (tmp_path / "data").mkdir()
    write_npz(tmp_path / "data" / "a.npz", x_train=np.zeros((2, 4, 4)), y_train=[1, 0])
    told = described("/gone/a.npz", path="/gone/a.npz")
    monkeypatch.delenv("ROTE_DATA", raising=False)
    with pytest.raises(InputError, match="no longer at /gone/a.npz.* ROTE_DATA"):
        view_samples(told, file, {0: None})
    monkeypatch.setenv("ROTE_DATA", str(tmp_path / "data"))
    assert list(view_samples(told, file, {0: None})) == [0]
    write_labels(file, rows=np.array([1]), labels=np.array([1]))
    with pytest.raises(InputError, match="have changed"):
        view_samples(told, file, {0: None})
    file.write_bytes(b"damage")
    with pytest.raises(InputError, match="Cannot read"):
        view_samples(told, file, {0: None})


@pytest.mark.parametrize(
    "workload", [{}, {"data": 3, "spec": {}}, {"data": {}, "spec": {"unknown": 1}}]
)
def test_a_run_that_does_not_name_its_data_has_no_views(workload: dict[str, Any]) -> None:
    assert view_samples(workload, Path("labels.npz"), {0: None}) == {}
