from pathlib import Path

import numpy as np
import pytest
from torch import Tensor, nn

from rote.workloads.loop import train
from rote.workloads.spec import FieldError
from tests.workloads.small_runs import small_spec, write_npz


def test_a_run_without_truth_and_test_set_trains(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = write_npz(
        tmp_path / "a.npz", x_train=rng.normal(size=(40, 3)), y_train=np.arange(40) % 2
    )
    run = train(small_spec(data={"name": "npz", "path": path}, noise="none"))
    assert set(run.readings[0].metrics) == {"train_accuracy", "train_loss", "lr"}


def test_texts_train_end_to_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    topics = np.arange(120) % 3
    words = np.array([["cat", "dog", "cow"], ["red", "blue", "pink"], ["one", "two", "ten"]])
    texts = np.array([" ".join(rng.choice(words[topic], 4)) for topic in topics])
    path = write_npz(
        tmp_path / "a.npz",
        text_train=texts[:90],
        y_train=topics[:90],
        text_test=texts[90:],
        y_test=topics[90:],
    )
    run = train(
        small_spec(
            epochs=8,
            data={"name": "npz", "path": path, "vocabulary": 9},
            noise={"model": "symmetric-inclusive", "rate": 0.2},
            optimizer={"name": "adam", "lr": 0.02},
            architecture={"name": "mlp", "options": {"width": 16, "depth": 1}},
        )
    )
    assert run.readings[-1].metrics["test_accuracy"] == 1.0


class Embedding(nn.Module):
    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x).mean(1))  # type: ignore[no-any-return]


def test_token_ids_train_a_user_model(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, 10, (40, 5))
    path = write_npz(tmp_path / "a.npz", x_train=ids, y_train=ids[:, 0] % 2)
    data = {"name": "npz", "path": path, "inputs": "tokens"}
    own = f"{__name__}:Embedding"
    run = train(small_spec(data=data, architecture=own))
    assert len(run.readings) == 3
    with pytest.raises(FieldError, match=r"`architecture.name` is 'mlp'.*token ids"):
        train(small_spec(data=data))
    with pytest.raises(FieldError, match=r"`objective.name` is 'mixup'.* token ids"):
        train(small_spec(data=data, architecture=own, objective="mixup"))
    with pytest.raises(FieldError, match=r"`architecture.name` is 'cnn'.* use 'mlp'"):
        train(small_spec(data=data, architecture="cnn"))
