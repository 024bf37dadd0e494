import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rote.errors import InputError
from rote.workloads.data.arrays import ArrayFile, cache_folder
from tests.workloads.small_runs import write_npz

X = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTE_CACHE", str(tmp_path / "cache"))


def npz(folder: Path) -> Path:
    return Path(write_npz(folder / "set.npz", x_train=X, y_train=np.arange(4)))


def npy_folder(folder: Path) -> Path:
    target = folder / "set"
    target.mkdir()
    np.save(target / "x_train.npy", X)
    np.save(target / "y_train.npy", np.arange(4))
    return target


@pytest.mark.parametrize("make", [npz, npy_folder])
@pytest.mark.parametrize(("limit", "kind"), [(24, np.ndarray), (23, np.memmap)])
def test_arrays_are_read_or_mapped_by_size(
    tmp_path: Path, make: type, limit: int, kind: type
) -> None:
    file = ArrayFile(make(tmp_path), in_memory_bytes=limit)
    assert file.names == ["x_train", "y_train"]
    assert "x_train" in file
    assert file.header("x_train") == ((4, 3, 2), np.dtype("uint8"))
    found = file.read("x_train")
    assert type(found) is kind
    np.testing.assert_array_equal(found, X)


def test_a_member_is_unpacked_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    path = npz(tmp_path)
    first = ArrayFile(path, in_memory_bytes=0).read("x_train")
    assert [file.suffix for file in cache_folder().iterdir()] == [".npy"]
    again = ArrayFile(path, in_memory_bytes=0).read("x_train")
    assert first.filename == again.filename  # type: ignore[attr-defined]
    write_npz(path, x_train=X[:2] + 1, extra=np.zeros(100))
    np.testing.assert_array_equal(ArrayFile(path, in_memory_bytes=0).read("x_train"), X[:2] + 1)


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"set\.npz has no array `x_test`.* x_train, y_train\."):
        ArrayFile(npz(tmp_path)).read("x_test")
    with pytest.raises(InputError, match=r"File not found: .*none\.npz"):
        ArrayFile(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(InputError, match=r"text\.npz is not an \.npz file"):
        ArrayFile(tmp_path / "text.npz")


def test_python_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", x_train=np.array([{}, None], dtype=object))
    with pytest.raises(InputError, match=r"`x_train` of .* to hold plain values, got Python obj"):
        ArrayFile(tmp_path / "objects.npz").read("x_train")


def test_the_cache_is_in_the_home_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTE_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "rote"


@pytest.mark.parametrize("in_archive", [True, False])
def test_a_header_that_promises_more_than_the_file_holds_is_refused(
    tmp_path: Path, in_archive: bool
) -> None:
    claim = io.BytesIO()
    shape = {"descr": "|u1", "fortran_order": False, "shape": (100_000_000_000,)}
    np.lib.format.write_array_header_1_0(claim, shape)  # type: ignore[arg-type]
    if in_archive:
        path = tmp_path / "set.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x_train.npy", claim.getvalue())
    else:
        path = tmp_path / "set"
        path.mkdir()
        (path / "x_train.npy").write_bytes(claim.getvalue())
    with pytest.raises(InputError, match=r"`x_train` of .* promises 100,000,000,000 bytes"):
        ArrayFile(path).read("x_train")
