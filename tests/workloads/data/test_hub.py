from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rote.errors import InputError, MissingExtraError
from rote.workloads.data import lookup as hub
from rote.workloads.data.catalog import CATALOG
from rote.workloads.data.lookup import load
from rote.workloads.spec import NamedData

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (12, 28, 28), dtype=np.uint8)
LABELS = [i % 10 for i in range(12)]


class FakeImage:
    """What Pillow gives back, as far as it is used."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels

    def convert(self, mode: str) -> np.ndarray:
        return self.pixels if mode == "L" else np.stack([self.pixels] * 3, axis=-1)


class FakeSplit(dict[str, list[Any]]):
    def __len__(self) -> int:
        return len(self["label"])


def fake_datasets(asked: list[tuple[str, str | None]]) -> SimpleNamespace:
    split = FakeSplit(image=[FakeImage(image) for image in PIXELS], label=LABELS)

    def load_dataset(repository: str, configuration: str | None) -> dict[str, FakeSplit]:
        asked.append((repository, configuration))
        return {"train": split, "test": split}

    return SimpleNamespace(load_dataset=load_dataset)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTE_DATA", raising=False)


def test_a_set_is_downloaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []
    monkeypatch.setattr(hub, "require", lambda package, extra: fake_datasets(asked))
    for _ in range(2):
        found = load(NamedData(name="mnist"))
        np.testing.assert_array_equal(found.x_train[..., 0], PIXELS)
        np.testing.assert_array_equal(found.y_train, LABELS)
        assert found.truth is found.y_train
    assert asked == [("ylecun/mnist", None)]


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(package: str, extra: str) -> None:
        raise MissingExtraError(f"no {package}: rote[{extra}]")

    monkeypatch.setattr(hub, "require", refuse)
    with pytest.raises(MissingExtraError, match=r"no datasets: rote\[datasets\]"):
        load(NamedData(name="mnist", source="hub"))
    with pytest.raises(InputError, match=r"Put mnist\.npz into .* pip install 'rote\[datasets\]'"):
        load(NamedData(name="mnist"))


def test_without_a_network_the_way_by_hand_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(hub, "require", lambda *_, **__: SimpleNamespace(load_dataset=fail))
    with pytest.raises(InputError, match=r"uoft-cs/cifar10: no network\. "):
        load(NamedData(name="cifar10", source="hub"))


def test_a_set_that_is_not_on_the_hub_says_so() -> None:
    with pytest.raises(InputError, match=r"clothing1m is not on the Hugging Face hub"):
        load(NamedData(name="clothing1m", source="hub"))


def test_a_real_split_is_converted() -> None:
    datasets = pytest.importorskip("datasets", reason="the extra `datasets` is not installed")
    pytest.importorskip("PIL", reason="Pillow is not installed")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    split = datasets.Dataset.from_dict({"image": list(PIXELS), "label": LABELS}, features=features)
    images, labels = hub.convert_split(split, CATALOG["mnist"])
    np.testing.assert_array_equal(images[..., 0], PIXELS)
    np.testing.assert_array_equal(labels, LABELS)
