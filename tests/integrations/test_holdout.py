"""The holdout that the callbacks record by themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("lightning", reason="needs the extra `lightning`")
pytest.importorskip("transformers", reason="needs rote[huggingface]")

import rote
from rote.errors import InputError
from rote.integrations.holdout import (
    INDICES_FILE,
    find_usable_labels,
    split_indices,
    vote,
    vote_budget,
)
from rote.integrations.huggingface import SusceptibilityCallback as ForTrainer
from rote.integrations.lightning import SusceptibilityCallback as ForLightning
from rote.integrations.training_batch import LabeledBatch
from tests.integrations.huggingface_runs import CLASSES, Texts, build_trainer
from tests.integrations.lightning_runs import (
    FEATURES,
    QUIET,
    Classifier,
    NoisySamples,
    Silent,
    loader,
    trainer,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("huggingface"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]


class Validated(Silent):
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", torch.zeros(()))


def given_labels(run: Path) -> list[int]:
    text = rote.store.read_run(run).description["given_labels"]
    return [int(label) for label in text.split()]


def pairs(size: int, seed: int) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, FEATURES, generator=generator)
    return DataLoader(
        TensorDataset(x, torch.randint(3, (size,), generator=generator)), batch_size=8
    )


def test_hugging_face_records_the_evaluation_data_with_their_labels(tmp_path: Path) -> None:
    texts = Texts(samples=30)
    callback = ForTrainer(save_to=tmp_path / "run")
    options = {"eval_dataset": texts}
    build_trainer(tmp_path / "out", callback, options=options).train()
    rows = {tuple(row.tolist()): int(y) for row, y in zip(texts.tokens, texts.labels, strict=True)}
    holdout: Any = callback.tracker.batch.holdout
    held = holdout["input_ids"]
    assert [rows[tuple(row.tolist())] for row in held] == given_labels(tmp_path / "run")
    assert len(held) == 30
    votes = np.load(tmp_path / "run" / "neighbor_votes.npy", allow_pickle=False)
    assert votes.shape == (30, CLASSES)
    assert callback.tracker.readings[0].validation_accuracy is not None


def test_lightning_records_the_validation_data_and_trains_the_same(tmp_path: Path) -> None:
    weights = []
    for callback in (ForLightning(num_classes=3, save_to=tmp_path / "run"), None):
        torch.manual_seed(0)
        module = Validated()
        made = trainer(tmp_path, [] if callback is None else [callback])
        made.fit(module, pairs(48, 1), pairs(24, 2))
        weights.append(module.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert len(given_labels(tmp_path / "run")) == 24
    votes = np.load(tmp_path / "run" / "neighbor_votes.npy", allow_pickle=False)
    assert votes.shape == (24, 3)


def test_without_validation_data_the_callback_says_once_what_to_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_trainer(tmp_path / "out", ForTrainer(save_to=tmp_path / "run")).train()
    printed = capsys.readouterr().out
    assert printed.count("No holdout") == 1
    assert "holdout='split'" in printed
    assert "`inputs=` and `given_labels=`" in printed


def test_a_split_takes_samples_out_of_training_only_when_asked(tmp_path: Path) -> None:
    for holdout in ("validation", "split"):
        callback = ForTrainer(holdout=holdout, save_to=tmp_path / holdout, holdout_size=4)
        made = build_trainer(tmp_path / "out", callback)
        made.train()
        seen = {tuple(row.tolist()) for batch in made.batches for row in batch}
        whole = {tuple(row.tolist()) for row in Texts().tokens}
        if holdout == "validation":
            assert seen == whole
            continue
        aside = np.load(tmp_path / "split" / INDICES_FILE, allow_pickle=False)
        assert len(aside) == 4
        assert seen == whole - {tuple(Texts().tokens[index].tolist()) for index in aside}
        assert len(given_labels(tmp_path / "split")) == 4


def test_a_split_of_lightning_leaves_the_others_to_training(tmp_path: Path) -> None:
    module = Classifier()
    callback = ForLightning(
        num_classes=3, holdout="split", holdout_size=6, save_to=tmp_path / "run"
    )
    made = trainer(tmp_path, [callback], max_epochs=1)
    made.fit(module, loader())
    aside = np.load(tmp_path / "run" / INDICES_FILE, allow_pickle=False)
    assert sorted(set(range(len(NoisySamples()))) - set(module.seen)) == aside.tolist()
    assert len(callback.tracker.batch.holdout) == 6


def test_a_split_after_the_trainer_was_built_is_refused(tmp_path: Path) -> None:
    made = build_trainer(tmp_path)
    made.add_callback(ForTrainer(holdout="split"))
    with pytest.raises(InputError, match=r"callbacks=\[callback\]"):
        made.train()


def test_a_split_is_seeded_and_at_most_a_fifth() -> None:
    kept, aside = split_indices(100, 512, seed=3)
    assert len(aside) == 20
    assert sorted([*kept, *aside]) == list(range(100))
    assert (split_indices(100, 512, seed=3)[1] == aside).all()
    assert (split_indices(100, 512, seed=4)[1] != aside).any()
    with pytest.raises(InputError, match="at least 5 training samples"):
        split_indices(4, 512, seed=0)


@pytest.mark.parametrize(
    ("given", "is_usable"),
    [
        (torch.tensor([0, 2, 1]), True),
        (torch.tensor([0, 3, 1]), False),  # a class that the model does not know
        (torch.tensor([0, -1, 1]), False),
        (torch.tensor([0.5, 1.0, 0.2]), False),  # a regression
        (torch.tensor([[0, 1], [1, 1], [2, 2]]), False),  # several labels, but no token task
        (None, False),
    ],
)
def test_labels_of_another_kind_are_left_out(given: Tensor | None, is_usable: bool) -> None:
    found = find_usable_labels(LabeledBatch(torch.zeros(3, 2), given), {}, 3)
    assert (found is not None) == is_usable


def test_votes_are_those_of_the_nearest_training_samples() -> None:
    train = torch.cat([torch.zeros(30, 2), torch.ones(30, 2) * 5])
    labels = torch.cat([torch.zeros(30), torch.ones(30)]).long()
    holdout = LabeledBatch(torch.tensor([[0.1, 0.0], [5.0, 4.9]]), torch.tensor([0, 1]))
    votes = vote(LabeledBatch(train, labels), holdout, 2)
    assert votes is not None
    assert votes.tolist() == [[1, 0], [0, 1]]
    assert vote_budget(holdout) == 5000
    wide = LabeledBatch(torch.zeros(1, 3, 1024, 1024), torch.tensor([0]))
    assert vote_budget(wide) == 0


def test_votes_on_texts_count_their_tokens() -> None:
    tokens = torch.tensor([[1, 2, 0]] * 20 + [[3, 4, 5]] * 20)
    labels = torch.cat([torch.zeros(20), torch.ones(20)]).long()
    mask = (tokens > 0).long()
    train = LabeledBatch({"input_ids": tokens, "attention_mask": mask}, labels)
    held = {"input_ids": torch.tensor([[2, 1, 0], [5, 4, 3]])}
    held["attention_mask"] = (held["input_ids"] > 0).long()
    votes = vote(train, LabeledBatch(held, torch.tensor([0, 1])), 2)
    assert votes is not None
    assert votes.argmax(1).tolist() == [0, 1]
