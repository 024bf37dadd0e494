"""Suspects on the page: the same as `rote suspects`, with cards of the very samples."""

import base64
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rote.reporting import report
from rote.reporting.contents import read_contents
from rote.reporting.suspects import MOST_PIXELS, Card, encode_picture, make_cards
from rote.selection import SuspectLabel, find_suspects
from rote.workloads import train
from rote.workloads.data import load
from rote.workloads.spec import NamedData
from tests.workloads.small_runs import small_spec


@pytest.fixture
def pillow() -> Any:
    return pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def decode(address: str) -> np.ndarray:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    head, content = address.split(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return np.asarray(pillow.open(io.BytesIO(base64.b64decode(content))))


def list_suspects(*samples: int) -> list[SuspectLabel]:
    return [SuspectLabel("aum", "train", sample, 0, None, 0.5, None) for sample in samples]


@pytest.mark.usefixtures("pillow")
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.integers(0, 9))
def test_small_pictures_are_exact(h: int, w: int, channels: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (h, w, channels), dtype=np.uint8)
    assert np.array_equal(decode(encode_picture(pixels)).reshape(pixels.shape), pixels)


def describe(source: Path, **data: object) -> dict[str, Any]:
    spec = small_spec(data={"path": str(source), **data}, noise={"model": "none"}).to_dict()
    return {"data": {"inputs": "images", "source": str(source)}, "spec": spec}


@pytest.mark.usefixtures("pillow")
def test_large_pictures_are_thinned_and_small_numbers_scaled(tmp_path: Path) -> None:
    np.savez(tmp_path / "labels.npz", rows=np.arange(2), labels=np.array([0, 1]))
    side = 2 * MOST_PIXELS
    np.savez(tmp_path / "a.npz", x_train=np.zeros((2, side, side), np.uint8), y_train=[0, 1])
    found = make_cards(describe(tmp_path / "a.npz"), tmp_path, list_suspects(1, 0))
    assert list(found) == [0, 1]
    assert decode(found[0].picture).shape == (MOST_PIXELS, MOST_PIXELS)
    x = np.linspace(-1, 1, 8).reshape(2, 2, 2)
    np.savez(tmp_path / "b.npz", x_train=x, y_train=[0, 1])
    found = make_cards(describe(tmp_path / "b.npz"), tmp_path, list_suspects(0, 1))
    shown = [decode(found[sample].picture) for sample in (0, 1)]
    assert np.array_equal(shown, np.round((x + 1) / 2 * 255))


def test_a_card_of_a_table_has_its_text_or_some_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "labels.npz", rows=np.arange(2), labels=np.array([0, 1]))
    text = "a text of many words that is long enough to be read"
    (tmp_path / "a.csv").write_text(f"text,n,label\n{text},3,x\n{text},4,y\n")
    found = make_cards(describe(tmp_path / "a.csv"), tmp_path, list_suspects(0))
    assert found == {0: Card(text=text)}
    (tmp_path / "b.csv").write_text("m,n,label\n1.5,3,x\n2.5,4,y\n")
    found = make_cards(describe(tmp_path / "b.csv"), tmp_path, list_suspects(1))
    assert found == {1: Card(cells=(("m", "2.5"), ("n", "4")))}
    assert make_cards({}, tmp_path, list_suspects(0)) == {}


SPEC: dict[str, Any] = {
    "data": {"name": "digits", "train_size": 300, "test_size": 20},
    "noise": {"model": "symmetric-inclusive", "rate": 0.4},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "architecture": {"name": "mlp", "options": {"width": 32, "depth": 1}},
    "probe": {"holdout_size": 60, "batch": 16},
    "signals": ["aum", "confident_learning"],
    "epochs": 6,
}


@pytest.mark.usefixtures("pillow")
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
    found.sort(key=lambda one: one.method != "posterior")  # proposed labels come first
    lists = re.findall("<ol class=.cards.>.*?</ol>", page, re.DOTALL)
    assert len(lists) == len(found)
    images = load(NamedData(name="digits")).x_train[..., 0]
    for suspicion, text in zip(found, lists, strict=True):
        shown = re.findall('class="sample">#(\\d+)<', text)
        assert shown == [str(suspect.sample) for suspect in suspicion.suspects[:20]]
        labels = [int(label) for label in re.findall('class="given">(\\d)<', text)]
        assert labels == [suspect.given for suspect in suspicion.suspects[:20]]
        pictures = re.findall('<img src="([^"]+)"', text)
        for sample, address in zip(shown, pictures, strict=True):
            expected = np.round(images[int(sample)] / 16 * 255)
            assert np.array_equal(decode(address), expected)


def test_missing_data_are_explained_and_hostile_words_are_text(tmp_path: Path) -> None:
    data = tmp_path / "<script>alert(1)</script>.npz"
    rng = np.random.default_rng(0)
    arrays = {"x_train": rng.random((300, 4, 4)), "y_train": rng.integers(0, 3, 300)}
    data.parent.mkdir(parents=True, exist_ok=True)
    np.savez(data, **arrays)
    spec = SPEC | {"data": {"path": str(data)}}
    train(small_spec(**spec), tmp_path / "runs" / "a")
    data.unlink()
    page = report(tmp_path / "runs", tmp_path / "page.html").path.read_text()
    assert "no longer at" in page
    assert "<script>alert(1)" not in page
    assert page.count('class="sample"') >= 20
    (tmp_path / "runs" / "a" / "labels.npz").write_bytes(b"damage")
    found = read_contents(tmp_path / "runs").suspects
    assert found.lists == ()
    assert "labels of a run are damaged" in found.note
