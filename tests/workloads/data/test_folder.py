import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rote.errors import InputError
from rote.workloads.data import folder as folder_module
from rote.workloads.data.folder import read_folder
from rote.workloads.data.lookup import load
from rote.workloads.data.npz_file import count_words
from rote.workloads.spec import FolderData, NamedData

MAPS = Path("/proc/self/maps")
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
    monkeypatch.setattr(folder_module, "require", lambda package, extra: pillow)
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


@pytest.mark.skipif(not MAPS.exists(), reason="reads what is mapped from /proc")
def test_decoded_images_are_not_mapped_when_they_are_moved(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[bool] = []
    usual = Path.replace

    def replace(path: Path, target: Path) -> Path:
        moved.append(str(path) in MAPS.read_text())
        return usual(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    read_folder(folder, name="a", image_size=8)
    assert moved == [False, False]  # Windows would refuse


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
    with pytest.raises(InputError, match=r"train\.txt lists no images"):
        read_folder(folder, name="a", image_size=8)
    lists.write_text("images/none.npy 1")
    with pytest.raises(InputError, match=r"File not found: .*none\.npy"):
        read_folder(folder, name="a", image_size=8)
    lists.unlink()
    expected = r"animal10n .* at least 2 subf.* images in train\.txt"
    with pytest.raises(InputError, match=expected):
        read_folder(folder, name="a", image_size=8)


def test_real_images_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    monkeypatch.setattr(folder_module, "require", lambda package, extra: pillow)
    pillow.fromarray(PIXELS[0]).save(tmp_path / "one.png")
    (tmp_path / "train.txt").write_text("one.png 0")
    found = read_folder(tmp_path, name="a", image_size=8)
    np.testing.assert_array_equal(found.x_train[0], PIXELS[0])


def test_a_subfolder_is_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    monkeypatch.setattr(folder_module, "require", lambda package, extra: pillow)
    places = ["train/dog/1.png", "train/cat/2.PNG", "train/cat/more/3.png", "test/dog/4.png"]
    for place, pixels in zip(places, PIXELS, strict=True):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        pillow.fromarray(pixels).save(tmp_path / place)
    (tmp_path / "train" / "cat" / "readme.md").write_text("no image")
    found = load(FolderData(path=str(tmp_path), image_size=8))
    assert (found.name, found.class_names) == (tmp_path.name, ("cat", "dog"))
    np.testing.assert_array_equal(found.y_train, [0, 0, 1])
    np.testing.assert_array_equal(found.x_train, PIXELS[[1, 2, 0]])
    np.testing.assert_array_equal(found.x_test, PIXELS[3:])
    np.testing.assert_array_equal(found.y_test, [1])
    found = load(FolderData(path=str(tmp_path / "train"), image_size=8))
    assert found.x_test is None
    assert len(found.x_train) == 3
    with pytest.raises(InputError, match=r"`data.vocabulary` .* not to images"):
        load(FolderData(path=str(tmp_path), vocabulary=9))
    (tmp_path / "test" / "cow").mkdir()
    with pytest.raises(InputError, match=r"'cow' .* is not a class .*cat, dog"):
        load(FolderData(path=str(tmp_path)))


def test_texts_in_subfolders_are_counted(tmp_path: Path) -> None:
    texts = {"neg/a.txt": "bad film", "pos/b.txt": "good film", "pos/c.txt": "very good"}
    for place, text in texts.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(text)
    found = load(FolderData(path=str(tmp_path), vocabulary=3))
    expected, _ = count_words(np.array(list(texts.values())), None, 3)
    np.testing.assert_array_equal(found.x_train, expected)
    np.testing.assert_array_equal(found.y_train, [0, 1, 1])
    assert found.inputs == "bag-of-words"
    (tmp_path / "pos" / "c.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"c\.txt as UTF-8"):
        load(FolderData(path=str(tmp_path)))


def test_a_folder_of_array_files_is_read_as_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x_train.npy", np.ones((4, 2)))
    np.save(tmp_path / "y_train.npy", np.arange(4) % 2)
    found = load(FolderData(path=str(tmp_path)))
    np.testing.assert_array_equal(found.x_train, np.ones((4, 2)))


def test_a_picture_of_gigapixels_is_refused(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data).to_bytes(4)
        return len(data).to_bytes(4) + kind + data + check

    header = (60_000).to_bytes(4) * 2 + bytes([8, 2, 0, 0, 0])
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"")
    (tmp_path / "large.png").write_bytes(content)
    with pytest.raises(InputError, match=r"large\.png.*3600000000 pixels"):
        folder_module._decode(pillow, tmp_path / "large.png", 8)
