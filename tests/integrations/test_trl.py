"""The callback in the trainers of TRL: causal LMs and preferences."""

import copy
import warnings
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, logsigmoid

import rote

pytest.importorskip("trl", reason="needs trl")
pytest.importorskip("datasets", reason="needs rote[datasets]")

from datasets import Dataset  # type: ignore[import-untyped]
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments
from trl import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    RewardConfig,
    RewardTrainer,
    SFTConfig,
    SFTTrainer,
)

from rote.integrations.huggingface import SusceptibilityCallback
from rote.integrations.huggingface_tasks import CausalLM, shift_labels
from rote.rivals.csl import Csl
from tests.integrations.trl_runs import (
    VOCABULARY,
    WORDS,
    arguments,
    build_language_model,
    build_pairs,
    build_reward_model,
    build_texts,
    build_tokenizer,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]


def build_sft(folder: Path, callback: Any, **others: Any) -> SFTTrainer:
    return SFTTrainer(
        build_language_model(),
        args=SFTConfig(**arguments(folder, **others)),
        train_dataset=build_texts(32),
        eval_dataset=build_texts(12, seed=1),
        processing_class=build_tokenizer(),
        callbacks=[] if callback is None else [callback],
    )


def build_reward(folder: Path, callback: Any, **others: Any) -> RewardTrainer:
    return RewardTrainer(
        build_reward_model(),
        args=RewardConfig(**arguments(folder, **others)),
        train_dataset=build_pairs(48),
        eval_dataset=build_pairs(24, seed=1),
        processing_class=build_tokenizer(),
        callbacks=[] if callback is None else [callback],
    )


def build_dpo(folder: Path, callback: Any, **others: Any) -> DPOTrainer:
    return DPOTrainer(
        build_language_model(),
        ref_model=build_language_model(),
        args=DPOConfig(**arguments(folder, **others)),
        train_dataset=build_pairs(32, prompt=True),
        eval_dataset=build_pairs(16, seed=1, prompt=True),
        processing_class=build_tokenizer(),
        callbacks=[] if callback is None else [callback],
    )


BUILDERS = {"sft": build_sft, "reward": build_reward, "dpo": build_dpo}


@pytest.mark.parametrize("kind", BUILDERS)
def test_training_is_the_same_with_one_line(kind: str, tmp_path: Path) -> None:
    found = []
    for callback in (SusceptibilityCallback(policy=rote.ProbePolicy(verify=True)), None):
        trainer = BUILDERS[kind](tmp_path, callback)
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        found.append((trainer.model.state_dict(), losses, torch.get_rng_state()))
    for name, value in found[0][0].items():
        assert torch.equal(value, found[1][0][name])
    assert found[0][1] == found[1][1]
    assert torch.equal(found[0][2], found[1][2])


def test_a_causal_model_predicts_the_next_token(tmp_path: Path) -> None:
    callback = SusceptibilityCallback()
    trainer = build_sft(tmp_path, callback)
    trainer.train()
    batch: Any = callback.tracker.batch
    reading = callback.tracker.readings[-1]
    assert callback.tracker._probe.num_classes == VOCABULARY
    tokens = batch.inputs["input_ids"]
    trainer.model.eval()
    with torch.no_grad():
        logits = trainer.model(**batch.inputs).logits
    is_word = batch.inputs["attention_mask"][:, 1:] == 1
    hits = (logits[:, :-1].argmax(-1) == tokens[:, 1:])[is_word]
    assert reading.validation_accuracy == pytest.approx(hits.double().mean().item())
    assert reading.validation_accuracy > 0.3  # an unshifted accuracy would be near zero
    # The loss of the probe is the model's own, on the random labels shifted back.
    trainer.model.train()
    back = CausalLM(trainer).restore_labels(batch.labels)
    own = trainer.model(**batch.inputs, labels=back).loss.item()
    assert own == pytest.approx(reading.loss_before, rel=1e-5)


def test_training_accuracy_is_that_of_the_next_token(tmp_path: Path) -> None:
    callback = SusceptibilityCallback()
    trainer = build_sft(tmp_path, callback, num_train_epochs=4)
    trainer.train()
    hits = []
    trainer.model.eval()
    for row in trainer.train_dataset:
        tokens = torch.tensor([row["input_ids"]])
        with torch.no_grad():
            logits = trainer.model(tokens).logits
        hits.append((logits[0, :-1].argmax(-1) == tokens[0, 1:]).double())
    measured = callback.tracker.readings[-1].train_accuracy
    assert measured == pytest.approx(torch.cat(hits).mean().item())
    # TRL's own is of train mode and of the steps before the last one.
    logged = [e["mean_token_accuracy"] for e in trainer.state.log_history if "loss" in e]
    assert measured == pytest.approx(logged[-1], abs=0.1)


def test_packed_sequences_are_probed_one_by_one(tmp_path: Path) -> None:
    callback = SusceptibilityCallback()
    trainer = build_sft(tmp_path, callback, packing=True, max_length=32, padding_free=True)
    trainer.train()
    inputs: Any = callback.tracker.batch.inputs
    assert set(inputs) == {"input_ids", "attention_mask"}
    assert len(inputs["input_ids"]) == 12  # the texts of the evaluation data
    assert (inputs["input_ids"][:, 0] > 1).all()  # each begins with a word, not with padding
    assert callback.tracker.readings[0].drop != 0


def test_signals_that_need_logits_are_named_where_a_fused_head_returns_none(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(signals=["gwa"])
    with pytest.warns(rote.errors.RoteWarning, match="`gwa` need .* without logits"):
        build_sft(tmp_path, callback).train()


def with_wrong_rows(count: int, every: int) -> tuple[Dataset, set[int]]:
    """Return counting texts in which every n-th row jumps instead, and which rows those are."""
    texts, wrong = list(build_texts(count)["text"]), set(range(3, count, every))
    generator = torch.Generator().manual_seed(5)
    for at in wrong:
        words = torch.randint(WORDS, (len(texts[at].split()),), generator=generator)
        texts[at] = " ".join(f"w{word}" for word in words.tolist())
    return Dataset.from_list([{"text": text} for text in texts]), wrong


@pytest.mark.parametrize("is_fused", [True, False])
def test_cumulative_losses_list_the_wrong_rows(is_fused: bool, tmp_path: Path) -> None:
    texts, wrong = with_wrong_rows(80, 8)
    callback = SusceptibilityCallback(signals=["csl"], save_to=tmp_path / "run", samples=8)
    more = arguments(tmp_path / "out", num_train_epochs=6, learning_rate=0.03)
    rest = {"processing_class": build_tokenizer(), "callbacks": [callback]}
    if is_fused:  # TRL's head returns a loss per token, and no logits
        trainer = SFTTrainer(
            build_language_model(), args=SFTConfig(**more), train_dataset=texts, **rest
        )
    else:
        tokens = texts.map(lambda row: build_tokenizer()(row["text"]), remove_columns=["text"])
        trainer = Trainer(
            build_language_model(),
            args=TrainingArguments(**more),
            data_collator=DataCollatorForLanguageModeling(build_tokenizer(), mlm=False),
            train_dataset=tokens,
            **rest,
        )
    trainer.train()
    sums = np.fromfile(tmp_path / "run" / "csl.bin", dtype=np.float32).reshape(-1, 80)[-1]
    assert np.isfinite(sums).all()  # every row was found in the batches
    ranked = rote.selection.rank_suspects(tmp_path / "run")[0].samples
    first = [entry.sample for entry in ranked if entry.split == "train"][: len(wrong)]
    assert len(wrong & set(first)) >= 0.8 * len(wrong)


def test_cumulative_losses_of_a_fused_head_are_those_of_the_model(tmp_path: Path) -> None:
    texts, _ = with_wrong_rows(16, 8)
    signal = Csl(samples=16)
    model = build_language_model()
    own = copy.deepcopy(model).train()
    trainer = SFTTrainer(
        model,
        args=SFTConfig(**arguments(tmp_path, num_train_epochs=1, per_device_train_batch_size=16)),
        train_dataset=texts,
        processing_class=build_tokenizer(),
        callbacks=[SusceptibilityCallback(signals=[signal], samples=8)],
    )
    trainer.train()
    for at, row in enumerate(trainer.train_dataset):  # one step: the losses before it
        tokens = torch.tensor([row["input_ids"]])
        assert signal.rows()["csl"][at] == pytest.approx(
            own(tokens, labels=tokens).loss.item(), rel=1e-4
        )


def test_cumulative_losses_of_packed_rows_are_refused_with_the_remedy(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(signals=["csl"])
    trainer = build_sft(tmp_path, callback, packing=True, max_length=32, padding_free=True)
    with pytest.raises(rote.errors.InputError, match="packing=False and padding_free=False"):
        trainer.train()


def test_the_old_name_of_the_fused_loss_gives_the_same_objective(tmp_path: Path) -> None:
    found = []
    for kind in ("nll", "chunked_nll"):
        callback = SusceptibilityCallback()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # TRL has renamed it
            trainer = build_sft(tmp_path, callback, loss_type=kind, num_train_epochs=1)
        trainer.train()
        found.append([reading.loss_before for reading in callback.tracker.readings])
    assert found[0] == found[1]


def test_a_probe_passes_no_more_samples_at_once_than_training(tmp_path: Path) -> None:
    callback = SusceptibilityCallback()
    trainer = build_sft(tmp_path, callback, per_device_train_batch_size=2, max_steps=2)
    sizes: SimpleQueue[int] = SimpleQueue()  # which a probe does not restore
    trainer.model.get_input_embeddings().register_forward_pre_hook(
        lambda _, taken: sizes.put(len(taken[0]))
    )
    callback.every = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rote.errors.UncopiedStateWarning)
        trainer.train()
    assert callback.tracker.readings
    assert callback.tracker._probe.policy.micro_batch == 2
    assert max(sizes.get() for _ in range(sizes.qsize())) == 2


def test_labels_are_shifted_by_one_place() -> None:
    labels = torch.tensor([[1, 2, 3], [4, 5, -100]])
    shifted = shift_labels(labels)
    assert shifted.tolist() == [[2, 3, -100], [5, -100, -100]]


def test_the_label_of_a_pair_is_which_response_wins(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(save_to=tmp_path / "run")
    trainer = build_reward(tmp_path / "out", callback)
    trainer.train()
    record = rote.store.read_run(tmp_path / "run")
    assert record.description["num_classes"] == 2
    given = np.array(record.description["given_labels"].split(), dtype=int)
    assert 0 < given.mean() < 1  # the order of the pairs was shuffled
    inputs: Any = callback.tracker.batch.holdout
    reading = callback.tracker.readings[-1]
    trainer.model.eval()
    with torch.no_grad():
        rewards = trainer.model(
            input_ids=inputs["input_ids"].flatten(0, 1),
            attention_mask=inputs["attention_mask"].flatten(0, 1),
        ).logits.reshape(-1, 2)
    # Rows of predictions are on disk, not in memory.
    rows = np.fromfile(tmp_path / "run" / "predictions.bin", dtype=np.uint8)
    predictions = rows.reshape(-1, len(given))[-1]
    assert predictions.tolist() == rewards.argmax(1).tolist()
    # With the order undone, the chosen response comes first, as in the evaluation data.
    chosen = build_tokenizer()(list(build_pairs(24, seed=1)["chosen"]))["input_ids"]
    expected = {tuple(row) for row in chosen}
    winners = inputs["input_ids"][torch.arange(len(given)), torch.as_tensor(given)]
    assert {tuple(t for t in row.tolist() if t > 1) for row in winners} == expected
    hits = (rewards.argmax(1).numpy() == given).mean()
    assert reading.validation_accuracy == pytest.approx(float(hits))


def test_the_objective_of_pairs_is_the_trainers(tmp_path: Path) -> None:
    callback = SusceptibilityCallback()
    trainer = build_reward(tmp_path, callback, center_rewards_coefficient=0.5)
    trainer.train()
    probe, batch = callback.tracker._probe, callback.tracker.batch
    scores = torch.tensor([[2.0, -1.0], [0.5, 1.5]])
    lead = torch.tensor([3.0, -1.0])
    expected = -logsigmoid(lead).mean() + 0.5 * torch.tensor([1.0, 4.0]).mean()
    assert probe.loss_fn(scores, torch.tensor([0, 0])).item() == pytest.approx(expected.item())
    assert set(batch.labels.tolist()) == {0, 1}


def test_scores_of_dpo_are_log_ratios(tmp_path: Path) -> None:
    callback = SusceptibilityCallback()
    trainer = build_dpo(tmp_path, callback, loss_type="robust", label_smoothing=0.2, beta=0.3)
    trainer.train()
    tracker = callback.tracker
    inputs = {key: value.flatten(0, 1) for key, value in tracker.batch.holdout.items()}
    labels = inputs["input_ids"].masked_fill(inputs["completion_mask"] == 0, -100)[:, 1:]
    totals = []
    for model in (trainer.model.eval(), trainer.ref_model):
        with torch.no_grad():
            logits = model(inputs["input_ids"], inputs["attention_mask"]).logits[:, :-1]
        losses = cross_entropy(logits.movedim(-1, 1), labels, reduction="none", ignore_index=-100)
        totals.append(-losses.sum(1))
    assert torch.allclose(totals[1], inputs["reference"], atol=1e-4)
    scores = 0.3 * (totals[0] - totals[1]).reshape(-1, 2)
    expected = scores.argmax(1).tolist()
    assert tracker.readings[-1].predictions.tolist() == expected
    lead = torch.tensor([1.0])
    robust = -(0.8 * logsigmoid(lead) - 0.2 * logsigmoid(-lead)) / 0.6
    loss = tracker._probe.loss_fn(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    assert loss.item() == pytest.approx(robust.item())


def test_scores_of_the_reference_leave_packed_weights_as_they_were(tmp_path: Path) -> None:
    """bitsandbytes packs weights in passes in eval mode, on CPUs with AVX512-BF16."""
    trainer = build_dpo(tmp_path, SusceptibilityCallback(), num_train_epochs=1)
    layer: Any = trainer.ref_model.model.layers[0].self_attn.q_proj
    layer.is_packed = False

    def pack(module: Any, _: object) -> None:
        if not module.training and not module.is_packed:
            module.weight.data, module.is_packed = module.weight.data.clone(), True

    layer.register_forward_pre_hook(pack)
    trainer.ref_model.train()  # so that only the callback uses eval mode
    place = layer.weight.data_ptr()
    trainer.train()
    assert (layer.weight.data_ptr(), layer.is_packed) == (place, False)


def test_options_that_change_the_scores_of_dpo_are_named(tmp_path: Path) -> None:
    trainer = build_dpo(tmp_path, SusceptibilityCallback(), ld_alpha=0.5, num_train_epochs=1)
    with pytest.warns(rote.errors.RoteWarning, match=r"DPOConfig\(ld_alpha"):
        trainer.train()


def test_trainers_whose_loss_is_unknown_name_the_arguments(tmp_path: Path) -> None:
    trainer = GRPOTrainer(
        build_language_model(),
        reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
        args=GRPOConfig(**arguments(tmp_path, num_generations=4, max_completion_length=4)),
        train_dataset=build_texts(8).rename_column("text", "prompt"),
        processing_class=build_tokenizer(),
        callbacks=[SusceptibilityCallback()],
    )
    with pytest.raises(rote.errors.InputError, match=r"loss of GRPOTrainer .*`loss_fn=`"):
        trainer.train()


def test_margins_are_refused(tmp_path: Path) -> None:
    pairs = build_pairs(16).add_column("margin", [0.5] * 16)
    trainer = RewardTrainer(
        build_reward_model(),
        args=RewardConfig(**arguments(tmp_path)),
        train_dataset=pairs,
        processing_class=build_tokenizer(),
        callbacks=[SusceptibilityCallback()],
    )
    with pytest.raises(rote.errors.InputError, match="`margin`"):
        trainer.train()
