"""The Lightning callback in pytorch-tabular, whose models take a whole batch and return a dict."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rote.integrations.lightning import SusceptibilityCallback

tabular: Any = pytest.importorskip("pytorch_tabular", reason="needs pytorch-tabular")
pandas: Any = pytest.importorskip("pandas", reason="needs pandas")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def fit(callback: SusceptibilityCallback | None) -> Any:
    names = list("abcde")
    values = np.random.default_rng(0).normal(size=(120, 5)).astype("float32")
    table = pandas.DataFrame(values, columns=names)
    table["kind"] = (values[:, 0] > 0).astype(int)
    model = tabular.TabularModel(
        data_config=tabular.config.DataConfig(target=["kind"], continuous_cols=names),
        model_config=tabular.models.CategoryEmbeddingModelConfig(
            task="classification", layers="16-8"
        ),
        optimizer_config=tabular.config.OptimizerConfig(),
        trainer_config=tabular.config.TrainerConfig(
            max_epochs=2,
            batch_size=32,
            accelerator="cpu",
            early_stopping=None,
            checkpoints=None,
            load_best=False,
            progress_bar="none",
        ),
        verbose=False,
    )
    callbacks = [] if callback is None else [callback]
    model.fit(train=table[:80], validation=table[80:], seed=1, callbacks=callbacks)
    return model


def test_training_is_the_same_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where its logger writes
    callback = SusceptibilityCallback(num_classes=2, inputs_of=lambda batch: (batch,))
    probed, bare = (fit(one).model.state_dict() for one in (callback, None))
    assert all(torch.equal(value, bare[name]) for name, value in probed.items())
    assert [reading.drop != 0 for reading in callback.readings] == [True, True]


def test_the_argument_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="inputs_of="):
        fit(SusceptibilityCallback(num_classes=2))
