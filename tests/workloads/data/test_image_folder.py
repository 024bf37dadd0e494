from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rote.errors import InputError
from rote.workloads.data import image_folder
from rote.workloads.data.image_folder import read_folder
from rote.workloads.data.lookup import load
from rote.workloads.spec import FolderData, NamedData

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)


class FakeImage:
    """What Pillow gives back, as far as it is used; the files are ``.npy``."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels

    def __enter__(self) -> "FakeImage":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def convert(self, mode: str) -> "FakeImage":
        assert mode == "RGB"
        return self

    def resize(self, size: tuple[int, int]) -> np.ndarray:
        return self.pixels[:: 8 // size[0], :: 8 // size[1]]


@pytest.fixture(autouse=True)
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("ROTE_CACHE", str(tmp_path / "cache"))
    paths: list[Path] = []

    def open_image(path: Path) -> FakeImage:
        paths.append(path)
        return FakeImage(np.load(path))

    pillow = SimpleNamespace(open=open_image)
    monkeypatch.setattr(image_folder, "require", lambda package, extra: pillow)
    return paths


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "animal10n"
    (target / "images").mkdir(parents=True)
    for place, pixels in enumerate(PIXELS):
        np.save(target / "images" / f"a {place}.npy", pixels)
    lines = [f"images/a {place}.npy {place % 3}" for place in range(4)]
    (target / "train.txt").write_text("\n".join(lines[:3]) + "\n\n")
    (target / "test.txt").write_text(lines[3])
    return target


def test_images_are_decoded_once(folder: Path, opened: list[Path]) -> None:
    for _ in range(2):
        found = load(FolderData(path=str(folder), image_size=8))
        np.testing.assert_array_equal(found.x_train, PIXELS[:3])
        np.testing.assert_array_equal(found.y_train, [0, 1, 2])
        assert found.x_test is not None
        np.testing.assert_array_equal(found.x_test, PIXELS[3:])
        assert found.truth is None
    assert len(opened) == 4
    assert load(FolderData(path=str(folder), image_size=8)).num_classes == 3


def test_large_sets_are_mapped(folder: Path) -> None:
    found = read_folder(folder, name="a", image_size=8, in_memory_bytes=1)
    assert isinstance(found.x_train, np.memmap)


def test_a_named_set_may_be_a_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, opened: list[Path]
) -> None:
    monkeypatch.setattr(FakeImage, "resize", lambda self, size: np.zeros((*size, 3), np.uint8))
    found = load(NamedData(name="animal10n"), folder.parent)
    assert found.sample_shape == (64, 64, 3)


def test_lists_that_do_not_fit_are_refused(folder: Path) -> None:
    lists = folder / "train.txt"
    lists.write_text("images/a 0.npy 1\nimages/b.npy one")
    with pytest.raises(InputError, match=r"line 2 of .*train\.txt to be a path and a class number"):
        read_folder(folder, name="a", image_size=8)
    lists.write_text("\n")
    with pytest.raises(InputError, match=r"train\.txt to list at least one image, got none"):
        read_folder(folder, name="a", image_size=8)
    lists.write_text("images/none.npy 1")
    with pytest.raises(InputError, match=r"none\.npy to be a readable image, got: .*No such file"):
        read_folder(folder, name="a", image_size=8)
    lists.unlink()
    with pytest.raises(InputError, match=r"train\.txt to list images and classes .*no such file"):
        read_folder(folder, name="a", image_size=8)


def test_real_images_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    monkeypatch.setattr(image_folder, "require", lambda package, extra: pillow)
    pillow.fromarray(PIXELS[0]).save(tmp_path / "one.png")
    (tmp_path / "train.txt").write_text("one.png 0")
    found = read_folder(tmp_path, name="a", image_size=8)
    np.testing.assert_array_equal(found.x_train[0], PIXELS[0])
