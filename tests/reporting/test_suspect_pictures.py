"""Suspects on the page: the same as `rote suspects`, and pictures of the very samples."""

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.errors import InputError
from rote.reporting import report
from rote.reporting.contents import read_contents
from rote.reporting.pictures import MOST_PIXELS, as_png, pictures_of
from rote.selection import SuspectLabel, find_suspects
from rote.workloads import train
from rote.workloads.data import load
from rote.workloads.spec import NamedData
from tests.workloads.small_runs import small_spec, write_npz

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("figures")]

DIGITS = {"data": {"inputs": "images", "source": "scikit-learn"}}


def decoded(address: str) -> np.ndarray:
    """By another library."""
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    head, content = address.split(",")
    assert head == "data:image/png;base64"
    return np.asarray(pillow.open(io.BytesIO(base64.b64decode(content))))


def suspects(*samples: int) -> list[SuspectLabel]:
    return [SuspectLabel("aum", "train", sample, 0, None, 0.5, None) for sample in samples]


def write_labels(path: Path, **arrays: Any) -> Path:
    path.mkdir(exist_ok=True)
    np.savez(path / "labels.npz", **arrays)
    return path


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.integers(0, 9))
def test_a_png_is_what_another_library_reads(h: int, w: int, channels: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (h, w, channels), dtype=np.uint8)
    assert np.array_equal(decoded(as_png(pixels)).reshape(pixels.shape), pixels)


def test_digits_are_numbered_as_in_training(tmp_path: Path) -> None:
    data = load(NamedData(name="digits"))
    rows = np.arange(len(data.y_train))
    path = write_labels(tmp_path, rows=rows, labels=data.y_train, wrong=np.zeros(len(rows), bool))
    found = pictures_of(DIGITS, path, suspects(0, 7, 1441))
    assert list(found) == [0, 7, 1441]
    for sample, address in found.items():
        expected = np.round(data.x_train[sample, ..., 0] / 16 * 255).astype(np.uint8)
        assert np.array_equal(decoded(address), expected)


def described(source: object, **data: object) -> dict[str, Any]:
    return {"data": {"inputs": "images", "source": str(source)}, "spec": {"data": data}}


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("side", [5, 2 * MOST_PIXELS])
def test_samples_of_a_file_as_they_are_numbered_without_those_that_have_no_label(
    tmp_path: Path, side: int, is_folder: bool
) -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, side, side, 3), dtype=np.uint8)
    arrays = {"x_train": x, "y_train": np.array([0, -1, 2, 1, -1, 0])}
    place = tmp_path / ("set" if is_folder else "set.npz")
    if is_folder:
        place.mkdir()
        for name, array in arrays.items():
            np.save(place / f"{name}.npy", array)
    else:
        write_npz(place, **arrays)
    run = write_labels(tmp_path / "run", rows=np.array([1, 3]), labels=np.array([2, 0]))
    found = pictures_of(described(place), run, suspects(3, 1))
    for sample, row in ((1, 2), (3, 5)):  # the labeled ones are 0, 2, 3 and 5
        stride = max(side // MOST_PIXELS, 1)
        assert np.array_equal(decoded(found[sample]), x[row, ::stride, ::stride])


def test_other_labels_and_numbers_that_are_no_bytes(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 3 * 4).reshape(3, 2, 2)
    file = write_npz(tmp_path / "a.npz", x_train=x, y_train=[0, 1, 2], y_worse=[0, -1, 0])
    run = write_labels(
        tmp_path / "run",
        rows=np.arange(2),
        labels=np.array([0, 0]),
        wrong=np.array([False, True]),
    )
    found = pictures_of(described(file, labels="worse"), run, suspects(0, 1))
    shown = np.round((x[[0, 2]] + 1) / 2 * 255)
    assert np.array_equal([decoded(found[0]), decoded(found[1])], shown)
    # Images whose labels are in a file of their own.
    joined = described(f"{file} and {tmp_path / 'labels of people.npz'}", labels="random1")
    run = write_labels(run, rows=[2], labels=[1], wrong=[True])
    assert list(pictures_of(joined, run, suspects(2))) == [2]


def test_data_that_moved_are_found_and_others_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_labels(tmp_path / "run", rows=np.array([0]), labels=np.array([1]))
    (tmp_path / "data").mkdir()
    write_npz(tmp_path / "data" / "a.npz", x_train=np.zeros((2, 4, 4)), y_train=[1, 0])
    told = described("/gone/a.npz")
    monkeypatch.delenv("ROTE_DATA", raising=False)
    with pytest.raises(
        InputError, match="at /gone/a.npz, as arrays, got none there. Set ROTE_DATA"
    ):
        pictures_of(told, run, suspects(0))
    monkeypatch.setenv("ROTE_DATA", str(tmp_path / "data"))
    assert list(pictures_of(told, run, suspects(0))) == [0]
    run = write_labels(run, rows=np.array([1]), labels=np.array([1]))
    with pytest.raises(InputError, match="got others: their labels are not those of"):
        pictures_of(told, run, suspects(0))
    with pytest.raises(InputError, match="to hold the images of these runs, got: index 7"):
        pictures_of(told, run, suspects(7))
    (tmp_path / "data" / "a.npz").write_bytes(b"no archive")
    with pytest.raises(
        InputError, match="to hold the images of these runs, got: File is not a zip"
    ):
        pictures_of(told, run, suspects(0))
    assert pictures_of({"data": {"inputs": "features", "source": "a.npz"}}, run, suspects(0)) == {}
    assert pictures_of({}, run, suspects(0)) == {}


SPEC: dict[str, Any] = {
    "data": {"name": "digits", "train_size": 300, "test_size": 20},
    "noise": {"model": "symmetric-inclusive", "rate": 0.4},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "architecture": {"name": "mlp", "options": {"width": 32, "depth": 1}},
    "probe": {"holdout_size": 60, "batch": 16},
    "signals": ["aum", "confident_learning"],
    "epochs": 6,
}


def test_the_page_shows_the_first_twenty_of_each_method_without_torch(tmp_path: Path) -> None:
    for seed in range(3):
        train(small_spec(**SPEC, seed=seed), tmp_path / "runs" / str(seed))
    code = (
        "import sys, rote; rote.report(sys.argv[1], sys.argv[2]); assert 'torch' not in sys.modules"
    )
    store, out = tmp_path / "runs", tmp_path / "page.html"
    subprocess.run([sys.executable, "-c", code, str(store), str(out)], check=True)
    page = out.read_text()
    found = [one for one in find_suspects(store) if one.suspects]
    assert [one.method for one in found[:2]] == ["aum", "confident_learning"]
    lists = re.findall("<ol>.*?</ol>", page, re.DOTALL)
    assert len(lists) == len(found)
    images = load(NamedData(name="digits")).x_train[..., 0]
    for suspicion, text in zip(found, lists, strict=True):
        shown = re.findall('class="sample">(\\d+)<', text)
        assert shown == [str(suspect.sample) for suspect in suspicion.suspects[:20]]
        labels = [int(label) for label in re.findall("label (\\d)", text)]
        assert labels == [suspect.given for suspect in suspicion.suspects[:20]]
        pictures = re.findall('<img src="([^"]+)"', text)
        for sample, address in zip(shown, pictures, strict=True):
            expected = np.round(images[int(sample)] / 16 * 255)
            assert np.array_equal(decoded(address), expected)


def test_without_the_data_a_sentence_says_so_and_hostile_words_are_text(tmp_path: Path) -> None:
    train(small_spec(**SPEC), tmp_path / "runs" / "a")
    file = tmp_path / "runs" / "a" / "workload.json"
    workload = json.loads(file.read_text())
    workload["data"]["source"] = "<script>alert(1)</script>"
    file.write_text(json.dumps(workload))
    page = report(tmp_path / "runs", tmp_path / "page.html").path.read_text()
    assert "Without pictures: Expected the images of these runs at &lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page
    assert page.count('class="sample"') >= 20
    (tmp_path / "runs" / "a" / "labels.npz").write_bytes(b"damage")
    found = read_contents(tmp_path / "runs").suspects
    assert found.lists == ()
    assert "labels.npz to hold the labels of a run, got" in found.trouble
