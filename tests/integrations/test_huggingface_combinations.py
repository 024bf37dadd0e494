"""Options of a Trainer that people use together."""

import itertools
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import rote

pytest.importorskip("transformers", reason="needs rote[huggingface]")

from transformers import EarlyStoppingCallback

from rote.integrations.huggingface import SusceptibilityCallback
from tests.integrations.huggingface_runs import (
    CLASSES,
    Recording,
    Texts,
    assert_identical,
    build_trainer,
    left_behind,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]


class Ragged(Texts):
    """Texts as they come, not padded."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        length = int(self.mask[index].sum())
        return {"input_ids": self.tokens[index][:length], "labels": self.labels[index]}


def padded(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    tokens = pad_sequence([item["input_ids"] for item in items], batch_first=True)
    labels = torch.stack([item["labels"] for item in items])
    return {"input_ids": tokens, "attention_mask": (tokens > 0).long(), "labels": labels}


def test_all_at_once_trains_the_same(tmp_path: Path) -> None:
    found = []
    callback = SusceptibilityCallback(num_classes=CLASSES, policy=rote.ProbePolicy(verify=True))
    for name, own in (("probed", callback), ("bare", None)):
        trainer = build_trainer(
            tmp_path / name,
            own,
            gradient_accumulation_steps=2,
            max_grad_norm=0.1,
            label_smoothing_factor=0.1,
            train_sampling_strategy="group_by_length",
            eval_strategy="steps",
            eval_steps=2,
            save_strategy="epoch",
            gradient_checkpointing=True,
            options={"data_collator": padded, "eval_dataset": Ragged()},
        )
        trainer.train_dataset = Ragged()
        trainer.train()
        found.append(left_behind(trainer))
    assert_identical(*found)
    assert len(callback.tracker.readings) == 3


@pytest.mark.parametrize("metric", ["susceptibility", "eval_susceptibility_plain"])
def test_the_best_model_may_be_that_of_the_lowest_zeta(metric: str, tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(
        tmp_path,
        callback,
        num_train_epochs=8,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model=metric,
        greater_is_better=False,
        options={"eval_dataset": Texts()},
    )
    trainer.add_callback(EarlyStoppingCallback(early_stopping_patience=1))
    trainer.train()
    zetas = [
        getattr(reading, metric.removeprefix("eval_")) for reading in callback.tracker.readings
    ]
    rises = [later >= earlier for earlier, later in itertools.pairwise(zetas)]
    assert rises == [False] * (len(zetas) - 2) + [True]  # stopped at the first rise, and not before
    best = callback.tracker.readings[-2]
    assert trainer.state.best_metric == min(zetas)
    assert Path(trainer.state.best_model_checkpoint).name == f"checkpoint-{best.global_step:.0f}"
    assert "eval_susceptibility" not in trainer.evaluate()


class OutOfMemory(Recording):
    """Runs out of memory in its fourth step, and whenever a batch has more than 14 samples."""

    steps = 0

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        self.steps += 1
        if self.steps == 4 or len(inputs["input_ids"]) > 14:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().training_step(model, inputs, num_items_in_batch)


def test_a_training_that_starts_over_with_a_smaller_batch_keeps_its_run(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(every=1, save_to=tmp_path / "run")
    trainer = build_trainer(
        tmp_path / "out",
        callback,
        trainer=OutOfMemory,
        auto_find_batch_size=True,
        per_device_train_batch_size=16,
    )
    trainer.train()
    assert trainer._train_batch_size == 12  # 16 and 14 were too many
    assert callback.tracker is not None
    assert callback.tracker.policy.micro_batch == 12
    steps = trainer.state.global_step
    readings = rote.store.read_run(tmp_path / "run").readings
    assert [reading.metrics["global_step"] for reading in readings] == [*range(1, steps + 1)]
    with pytest.raises(rote.errors.RunExistsError):  # a training of its own
        trainer.train()


def test_a_trial_without_memory_lets_the_trainer_lower_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = build_trainer(
        tmp_path / "out",
        SusceptibilityCallback(save_to=tmp_path / "run"),
        auto_find_batch_size=True,
        per_device_train_batch_size=16,
    )
    embed = trainer.model.get_input_embeddings()
    forward = embed.forward

    def limited(tokens: Tensor) -> Any:
        if len(tokens) > 12:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(tokens)

    monkeypatch.setattr(embed, "forward", limited)
    trainer.train()
    assert trainer._train_batch_size == 12


@pytest.mark.filterwarnings("ignore::rote.errors.UncopiedStateWarning")
def test_the_trial_runs_in_train_mode_as_every_step_does(tmp_path: Path) -> None:
    """Under PEFT, a base that was loaded in eval mode stays in it until the first step."""
    trainer = build_trainer(tmp_path, SusceptibilityCallback(), kind="adapters")
    layer = trainer.model.get_base_model().bert.encoder
    layer.eval()
    assert trainer.model.training
    modes: SimpleQueue[bool] = SimpleQueue()  # which a probe does not restore
    layer.register_forward_pre_hook(lambda module, _: modes.put(module.training))
    trainer.train()
    assert modes.get()
