import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import (
    InputError,
    MissingExtraError,
    RoteWarning,
    RunExistsError,
    UncopiedStateWarning,
)
from rote.labels import IGNORE_INDEX, PerToken

transformers = pytest.importorskip("transformers", reason="needs rote[huggingface]")

from transformers import Trainer, TrainerCallback  # noqa: E402

from rote.integrations.huggingface import SusceptibilityCallback  # noqa: E402
from tests.integrations.huggingface_runs import (  # noqa: E402
    CLASSES,
    Recording,
    Texts,
    assert_identical,
    build_trainer,
    left_behind,
)
from tests.oracle import oracle_losses  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]


class Keyworded(nn.Module):
    """A text classifier as the oracle calls one: with one argument, in the Trainer's precision."""

    def __init__(self, model: nn.Module, *, bf16: bool) -> None:
        super().__init__()
        self.inside = model
        self.bf16 = bf16

    def forward(self, x: dict[str, Tensor]) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            found = self.inside(**x)
        logits: Tensor = found["logits"].float()
        return logits


@contextmanager
def without_autocast_of_accelerate(model: nn.Module) -> Iterator[None]:
    taken = {
        key: vars(model).pop(key) for key in ("forward", "_original_forward") if key in vars(model)
    }
    yield
    vars(model).update(taken)


def mean_over_rows(logits: Tensor, labels: Tensor) -> Tensor:
    """Sum in the order of rows, one per sample or token: torch rounds otherwise over more axes."""
    return cross_entropy(logits.flatten(0, -2), labels.flatten())


class Oracle(TrainerCallback):
    """Stands before the callback and does by deep copy what it is about to do."""

    def __init__(self, callback: SusceptibilityCallback) -> None:
        self.callback = callback
        self.found: list[tuple[float, float, float]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        every = self.callback.every
        if state.epoch % 1 if every == "epoch" else state.global_step % every:
            return
        model, optimizer = parts["model"], parts["optimizer"].optimizer
        assert all(parameter.grad is None for parameter in model.parameters())
        batch = self.callback.tracker.batch
        with without_autocast_of_accelerate(model):
            twin = Keyworded(model, bf16=args.bf16)
            take = partial(oracle_losses, twin, optimizer, loss_fn=mean_over_rows)
            before, after = take(batch.inputs, batch.labels)
            _, plain = take(batch.inputs, batch.labels, rule=0.01)
        self.found.append((before, after, plain))


CASES: dict[str, dict[str, Any]] = {
    "sequence": {},
    "token": {"kind": "token"},
    "accumulation": {"gradient_accumulation_steps": 2},
    "clipping": {"max_grad_norm": 0.05},
    "bf16": {"bf16": True},
    "fp16_which_is_fp32_on_cpu": {"fp16": True},
    "adapters": {"kind": "adapters"},
    "every_two_steps": {"gradient_accumulation_steps": 2, "logging_strategy": "epoch"},
}


@pytest.mark.parametrize("name", CASES)
def test_training_is_the_same_and_the_readings_are_right(name: str, tmp_path: Path) -> None:
    case = {"logging_steps": 1, **CASES[name]}
    callback = SusceptibilityCallback(
        num_classes=CLASSES,
        every=2 if name == "every_two_steps" else "epoch",
        samples=9,
        policy=rote.ProbePolicy(verify=True),
    )
    probed = build_trainer(tmp_path, callback, **case)
    oracle = Oracle(callback)
    probed.callback_handler.callbacks.insert(0, oracle)
    probed.train()
    seen = left_behind(probed)
    bare = build_trainer(tmp_path, **case)
    bare.train()
    assert_identical(seen, left_behind(bare))
    readings = callback.tracker.readings
    assert len(readings) == (4 if name == "every_two_steps" else 3)
    for reading, (before, after, plain) in zip(readings, oracle.found, strict=True):
        assert (reading.loss_before, reading.loss_after) == (before, after)
        assert reading.loss_after_plain == plain
        assert plain != before
    assert any(after != before for before, after, _ in oracle.found)


def test_readings_differ_without_bf16(tmp_path: Path) -> None:
    readings = []
    for bf16 in (False, True):
        callback = SusceptibilityCallback(num_classes=CLASSES)
        build_trainer(tmp_path, callback, bf16=bf16, max_steps=5).train()
        readings.append(callback.tracker.readings[0])
    assert readings[0].loss_before != readings[1].loss_before


def test_values_are_in_the_history_and_in_tensorboard(tmp_path: Path) -> None:
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )
    callback = SusceptibilityCallback(num_classes=CLASSES, every=2)
    trainer = build_trainer(tmp_path, callback, report_to=["tensorboard"], logging_steps=2)
    trainer.train()
    readings = callback.tracker.readings
    history = [entry for entry in trainer.state.log_history if "susceptibility" in entry]
    assert [entry["step"] for entry in history] == [2, 4, 6, 8, 10, 12, 14]
    assert [entry["probe/drop"] for entry in history] == [r.drop for r in readings]
    assert [entry["susceptibility_plain"] for entry in history] == [
        r.susceptibility_plain for r in readings
    ]
    assert [entry["step"] for entry in trainer.state.log_history if "loss" in entry] == [
        2, 4, 6, 8, 10, 12, 14
    ]  # fmt: skip
    (file,) = tmp_path.rglob("events.out.*")
    events = reader.EventAccumulator(str(file)).Reload()
    scalars = events.Scalars("train/susceptibility")
    assert [event.step for event in scalars] == [2, 4, 6, 8, 10, 12, 14]
    assert [event.value for event in scalars] == [np.float32(r.susceptibility) for r in readings]
    assert len(events.Scalars("train/probe/drop")) == len(events.Scalars("train/loss")) == 7


def test_random_labels_stand_where_tokens_have_labels(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(tmp_path, callback, kind="token", max_steps=5)
    trainer.train()
    batch = callback.tracker.batch
    texts = trainer.train_dataset
    rows = {
        tuple(row.tolist()): label for row, label in zip(texts.tokens, texts.labels, strict=True)
    }
    assert set(dict(batch.inputs)) == {"input_ids", "attention_mask"}
    assert batch.labels.shape == (20, 6)
    for tokens, labels in zip(dict(batch.inputs)["input_ids"], batch.labels, strict=True):
        given = rows[tuple(tokens.tolist())]
        assert torch.equal(labels == IGNORE_INDEX, given == IGNORE_INDEX)
    assert set(batch.labels[batch.labels >= 0].tolist()) == set(range(CLASSES))


def test_without_given_labels_padding_has_no_random_label(tmp_path: Path) -> None:
    texts = Texts(per_token=True)
    inputs = {"input_ids": texts.tokens, "attention_mask": texts.mask}
    callback = SusceptibilityCallback(num_classes=CLASSES, inputs=inputs)
    build_trainer(tmp_path, callback, kind="token", max_steps=5).train()
    assert torch.equal(callback.tracker.batch.labels >= 0, texts.mask == 1)


def test_token_texts_may_be_padded_to_any_length(tmp_path: Path) -> None:
    texts = Texts(per_token=True)
    short = {"input_ids": texts.tokens[:8, :4], "labels": texts.labels[:8, :4]}
    callback = SusceptibilityCallback(num_classes=CLASSES, inputs=short)
    build_trainer(tmp_path, callback, kind="token", max_steps=5).train()
    reading = callback.tracker.readings[0]
    assert callback.tracker.batch.labels.shape == (8, 4)
    assert 0 < reading.train_accuracy < 1
    assert reading.validation_accuracy is not None


def test_labels_among_the_inputs_are_the_given_ones(tmp_path: Path) -> None:
    texts = Texts()
    inputs = transformers.BatchEncoding(texts[slice(None)])
    callback = SusceptibilityCallback(num_classes=CLASSES, inputs=inputs)
    trainer = build_trainer(tmp_path, callback, max_steps=5)
    trainer.train()
    reading = callback.tracker.readings[0]
    assert reading.validation_accuracy == accuracy_of(trainer.model, texts)
    assert reading.predictions is not None
    assert "labels" in inputs


class Anything(nn.Module):
    """A wrapper that passes keywords on, so that no signature tells which of them are labels."""

    seen: ClassVar[SimpleQueue[tuple[int, bool]]] = SimpleQueue()  # no probe can put it back

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, **keywords: Tensor) -> Any:
        self.seen.put((len(keywords["input_ids"]), "labels" in keywords))
        return self.inside(**keywords)


def test_a_model_that_takes_any_keyword_gets_no_labels_in_a_probe(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(tmp_path, callback, max_steps=5, remove_unused_columns=False)
    trainer.model = trainer.model_wrapped = Anything(trainer.model)
    trainer.label_names = []
    with pytest.warns(UncopiedStateWarning, match=r"model\.seen \(SimpleQueue\)"):
        trainer.train()
    seen = {Anything.seen.get() for _ in range(Anything.seen.qsize())}
    # Batches of training, and S̃ of 20 samples in micro-batches of the same size.
    assert seen == {(4, True), (4, False)}
    assert len(callback.tracker.batch.labels) == 20
    assert "train_accuracy" in callback.tracker.readings[0].metrics


def test_evaluation_alone_does_not_probe(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(tmp_path, callback, options={"eval_dataset": Texts()})
    trainer.evaluate()
    trainer.predict(Texts())
    assert callback.tracker is None


def accuracy_of(model: nn.Module, texts: Texts) -> float:
    model.eval()
    with torch.no_grad():
        logits = model(texts.tokens, texts.mask)["logits"]
    counted = texts.labels != IGNORE_INDEX
    return (logits.argmax(-1) == texts.labels)[counted].double().mean().item()


@pytest.mark.parametrize("kind", ["sequence", "token"])
def test_training_accuracy_is_measured(kind: str, tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, samples=3)
    trainer = build_trainer(tmp_path, callback, kind=kind)
    trainer.train()
    measured = callback.tracker.readings[-1].train_accuracy
    assert measured == accuracy_of(trainer.model, trainer.train_dataset)
    assert trainer.state.log_history[-2]["train_accuracy"] == measured


def test_training_continues_when_its_accuracy_runs_out_of_memory(tmp_path: Path) -> None:
    def train(callback: SusceptibilityCallback | None) -> Trainer:
        trainer = build_trainer(tmp_path, callback, max_steps=15)  # three epochs
        embed = trainer.model.get_input_embeddings()

        def fail_when_measured(module: torch.nn.Module, taken: tuple[Tensor, ...]) -> None:
            # At the first probe; a probe passes S̃ in train mode.
            if not module.training and trainer.state.global_step == 5:
                raise torch.OutOfMemoryError("CUDA out of memory")

        embed.register_forward_pre_hook(fail_when_measured)
        trainer.train()
        return trainer

    callback = SusceptibilityCallback(
        num_classes=CLASSES,
        samples=3,
        stop=rote.StopRule(train_accuracy=0.0, patience=9, min_epochs=1),
    )
    with pytest.warns(rote.errors.SkippedReadingWarning, match="no training accuracy; training"):
        probed = train(callback)
    known = ["train_accuracy" in reading.metrics for reading in callback.tracker.readings]
    assert known == [False, True, True]
    bare = train(None).model.state_dict()
    assert all(torch.equal(value, bare[name]) for name, value in probed.model.state_dict().items())


def test_training_accuracy_may_be_left_out(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, measure_accuracy=0)
    build_trainer(tmp_path, callback, max_steps=5).train()
    assert "train_accuracy" not in callback.tracker.readings[0].metrics


class Logging(Recording):
    """Logs a training accuracy of its own, at the second step of each epoch of five."""

    def training_step(self, *arguments: Any, **others: Any) -> Tensor:
        if self.state.global_step % 5 == 2:
            self.log({"my_accuracy": self.state.global_step / 100})
        return super().training_step(*arguments, **others)


def test_a_logged_training_accuracy_is_taken(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="my_accuracy", every=5)
    build_trainer(tmp_path, callback, trainer=Logging).train()
    assert [r.train_accuracy for r in callback.tracker.readings] == [0.02, 0.07, 0.12]
    other = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="my_accuracy", every=1)
    trainer = build_trainer(tmp_path, other, trainer=Logging, max_steps=5)
    with pytest.warns(RoteWarning, match="`my_accuracy` was not logged before the first probe"):
        trainer.train()
    found = [r.train_accuracy for r in other.tracker.readings]
    assert [value == 0.02 for value in found] == [False, False, True, False, False]


def test_the_callback_waits_for_the_training_accuracy_of_an_evaluation(tmp_path: Path) -> None:
    def hits(found: Any) -> dict[str, float]:
        return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}

    options = {"eval_dataset": {"train": Texts(), "other": Texts()}, "compute_metrics": hits}
    arguments = {"eval_strategy": "epoch", "save_strategy": "epoch"}
    callback = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="eval_train_accuracy")
    probed = build_trainer(tmp_path / "a", callback, options=options, **arguments)
    probed.train()
    seen = left_behind(probed)
    bare = build_trainer(tmp_path / "b", options=options, **arguments)
    bare.train()
    assert_identical(seen, left_behind(bare))
    logged = [
        e["eval_train_accuracy"] for e in bare.state.log_history if "eval_train_accuracy" in e
    ]
    assert len(logged) == 3
    assert [r.train_accuracy for r in callback.tracker.readings] == logged
    assert [r.global_step for r in callback.tracker.readings] == [5, 10, 15]


def smooth(output: Any, labels: Tensor) -> Tensor:
    return cross_entropy(output["logits"], labels, label_smoothing=0.2)


def weighted(output: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    weight = torch.tensor([1.0, 2.0, 0.5])
    found: Tensor = cross_entropy(output["logits"], labels, weight, reduction="sum")
    return found / num_items_in_batch


def weighted_mean(output: Any, labels: Tensor) -> Tensor:
    return weighted(output, labels, len(labels))


OBJECTIVES: dict[str, tuple[dict[str, Any], Callable[..., Tensor]]] = {
    "label_smoothing": ({"label_smoothing_factor": 0.2}, smooth),
    "compute_loss_func": ({"options": {"compute_loss_func": weighted}}, weighted_mean),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_objective_of_the_trainer_is_probed(name: str, tmp_path: Path) -> None:
    arguments, loss_fn = OBJECTIVES[name]
    readings = []
    for own in (None, loss_fn, rote.probe.cross_entropy):
        callback = SusceptibilityCallback(num_classes=CLASSES, loss_fn=own)
        build_trainer(tmp_path, callback, max_steps=5, **arguments).train()
        readings.append(callback.tracker.readings[0])
    assert readings[0].loss_before == pytest.approx(readings[1].loss_before, rel=1e-6)
    assert readings[0].loss_after == pytest.approx(readings[1].loss_after, rel=1e-6)
    assert readings[0].loss_before != pytest.approx(readings[2].loss_before, rel=1e-3)


class OwnLoss(Recording):
    def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Tensor:
        labels = inputs.pop("labels")
        return cross_entropy(model(**inputs).logits, labels, label_smoothing=0.1)


def test_an_objective_that_cannot_be_probed_is_pointed_out(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    with pytest.warns(RoteWarning, match=r"OwnLoss has a compute_loss of its own.*`loss_fn=`"):
        build_trainer(tmp_path, callback, trainer=OwnLoss, max_steps=5).train()
    said = SusceptibilityCallback(num_classes=CLASSES, loss_fn=smooth)
    build_trainer(tmp_path, said, trainer=OwnLoss, max_steps=5).train()


def test_a_trainer_of_texts_names_the_arguments_to_pass(tmp_path: Path) -> None:
    """As those of Sentence Transformers, whose collators make no tensors."""
    kind = type("CrossEncoderTrainer", (Recording,), {})
    trainer = build_trainer(tmp_path, SusceptibilityCallback(), trainer=kind, max_steps=5)
    with pytest.raises(InputError, match=r"`inputs=.*`num_classes=` and `loss_fn=`"):
        trainer.train()


def test_multi_label_tasks_have_zeros_and_ones(tmp_path: Path) -> None:
    texts = Texts()
    texts.labels = nn.functional.one_hot(texts.labels, CLASSES).float()
    callback = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(tmp_path, callback, max_steps=5)
    trainer.train_dataset = texts
    trainer.model.config.problem_type = "multi_label_classification"
    trainer.train()
    labels = callback.tracker.batch.labels
    assert labels.shape == (20, CLASSES)
    assert 0 < labels.mean() < 0.6
    logits = trainer.model.eval()(texts.tokens, texts.mask).logits
    expected = ((logits > 0) == (texts.labels > 0)).double().mean().item()
    assert callback.tracker.readings[0].train_accuracy == expected


def test_few_parameters_train_and_the_base_stays(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(tmp_path, callback, kind="adapters", max_steps=5)
    parameters = dict(trainer.model.named_parameters())
    frozen = {name for name, parameter in parameters.items() if not parameter.requires_grad}
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    trainer.train()
    changed = {name for name in parameters if not torch.equal(before[name], parameters[name])}
    assert changed
    assert not changed & frozen
    assert len(frozen) > len(changed)
    assert callback.tracker.readings[0].drop_plain != 0


def test_the_rule_stops_and_its_checkpoint_survives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = rote.StopRule(
        train_accuracy=0.0, patience=2, min_epochs=2, column="susceptibility_plain"
    )
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule, save_to=tmp_path / "run")
    trainer = build_trainer(
        tmp_path / "out", callback, num_train_epochs=30, save_strategy="epoch", save_total_limit=1
    )
    with caplog.at_level(logging.INFO, logger="rote"):
        trainer.train()
    zeta = [reading.susceptibility_plain or 0 for reading in callback.tracker.readings]
    lowest = min(range(1, len(zeta)), key=lambda index: zeta[index]) + 1
    assert len(zeta) == lowest + 2 < 30
    assert callback.keep == rule.keep == lowest
    assert callback.keep_path == str(tmp_path / "out" / f"checkpoint-{5 * lowest}")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"checkpoint-{5 * lowest}"]
    assert "Training stops: ζ has been above its lowest value" in caplog.text


def test_a_rule_that_counted_nothing_is_pointed_out_once(tmp_path: Path) -> None:
    rule = rote.StopRule(train_accuracy=1.0, min_epochs=1)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule)
    with pytest.warns(RoteWarning) as caught:
        build_trainer(tmp_path, callback).train()
    highest = max(reading.train_accuracy for reading in callback.tracker.readings)
    (said,) = [str(entry.message) for entry in caught if entry.category is RoteWarning]
    assert "`stop` counted none of the 3 readings" in said
    assert f"of 1 or more (the highest was {highest:.3g})" in said


@pytest.mark.parametrize("measured", [0, 8])
def test_a_named_metric_that_is_never_logged_is_pointed_out_once(
    measured: int, tmp_path: Path
) -> None:
    callback = SusceptibilityCallback(
        num_classes=CLASSES, train_accuracy="my_acc", measure_accuracy=measured
    )
    with pytest.warns(RoteWarning) as caught:
        build_trainer(tmp_path, callback, trainer=Logging).train()
    (said,) = [str(entry.message) for entry in caught if entry.category is RoteWarning]
    assert "metric `my_acc` was not logged before the first probe, only `loss`, " in said
    assert " `my_accuracy`" in said
    instead = "measured instead, on at most 8 training" if measured else "have no training accuracy"
    assert instead in said
    known = ["train_accuracy" in reading.metrics for reading in callback.tracker.readings]
    assert known == [bool(measured)] * 3


def test_an_evaluation_that_never_brings_the_metric_is_pointed_out(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="eval_acc")
    trainer = build_trainer(
        tmp_path, callback, eval_strategy="epoch", options={"eval_dataset": Texts()}
    )
    with pytest.warns(RoteWarning, match=r"train_accuracy='eval_acc', only `eval_loss`"):
        trainer.train()


def test_a_stop_without_a_training_accuracy_says_what_to_pass(tmp_path: Path) -> None:
    rule = rote.StopRule(train_accuracy=0.0, min_epochs=1)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule, measure_accuracy=0)
    with pytest.raises(InputError, match=r"`stop` needs a training acc.* `measure_accuracy=512`"):
        build_trainer(tmp_path, callback).train()


@pytest.mark.parametrize(
    ("options", "match"),
    [({"stop": True}, "a StopRule, got True"), ({"samples": 0}, "of at least 1, got 0")],
)
def test_unusable_stop_arguments_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        SusceptibilityCallback(num_classes=CLASSES, **options)


def test_the_rule_starts_over_in_a_second_training(tmp_path: Path) -> None:
    rule = rote.StopRule(train_accuracy=0.0, patience=1, min_epochs=2)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule)
    trainer = build_trainer(tmp_path, callback, num_train_epochs=30)
    trainer.train()
    assert rule.stopped
    assert 3 <= len(callback.tracker.readings) < 30
    trainer.args.num_train_epochs = 1
    with pytest.warns(RoteWarning, match=r"`stop` counted none .* from step 2 on \(the last was 1"):
        trainer.train()
    assert not rule.stopped
    assert rule.keep is None  # and not that of the first training
    assert len(callback.tracker.readings) == 1


def test_the_checkpoint_to_keep_is_saved_whatever_the_strategy(tmp_path: Path) -> None:
    rule = rote.StopRule(train_accuracy=0.0, patience=30, min_epochs=2)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule)
    build_trainer(tmp_path, callback).train()
    assert rule.keep in (2, 3)
    assert callback.keep_path is not None
    assert Path(callback.keep_path, "model.safetensors").is_file()


def test_two_claims_to_the_best_checkpoint_are_pointed_out(tmp_path: Path) -> None:
    rule = rote.StopRule(train_accuracy=0.0, min_epochs=1)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule)
    arguments = {"save_total_limit": 1, "metric_for_best_model": "loss", "max_steps": 5}
    with pytest.warns(RoteWarning, match="`metric_for_best_model` and may delete"):
        build_trainer(tmp_path, callback, **arguments).train()


def test_a_training_without_a_probe_is_pointed_out(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    with pytest.warns(RoteWarning, match=r"every='epoch' was not reached in 3 steps"):
        build_trainer(tmp_path, callback, max_steps=3).train()


def test_two_callbacks_need_names(tmp_path: Path) -> None:
    first, second = (SusceptibilityCallback(num_classes=CLASSES) for _ in range(2))
    trainer = build_trainer(tmp_path, first, max_steps=5)
    trainer.add_callback(second)
    with pytest.raises(InputError, match="needs a `name=` of its own, and two have None"):
        trainer.train()
    second.name = "second"
    trainer.train()
    assert first.tracker.readings[0].drop == second.tracker.readings[0].drop


class Stream(torch.utils.data.IterableDataset[dict[str, Tensor]]):
    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        texts = Texts()
        return (texts[index] for index in range(len(texts)))


def test_a_stream_needs_inputs(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, every=2)
    trainer = build_trainer(tmp_path, callback, max_steps=4)
    trainer.train_dataset = Stream()
    with pytest.raises(InputError, match="cannot draw samples from .* `inputs=`"):
        trainer.train()
    inputs = {"input_ids": Texts().tokens, "attention_mask": Texts().mask}
    callback = SusceptibilityCallback(num_classes=CLASSES, every=2, inputs=lambda: inputs)
    trainer = build_trainer(tmp_path, callback, max_steps=4)
    trainer.train_dataset = Stream()
    with pytest.warns(RoteWarning, match="`train_accuracy` .* The readings have no training acc"):
        trainer.train()
    assert len(callback.tracker.readings) == 2
    assert "train_accuracy" not in callback.tracker.readings[0].metrics


def test_a_stream_has_no_epochs(tmp_path: Path) -> None:
    inputs = {"input_ids": Texts().tokens, "attention_mask": Texts().mask}
    callback = SusceptibilityCallback(num_classes=CLASSES, inputs=inputs)
    trainer = build_trainer(tmp_path, callback, max_steps=4)
    trainer.train_dataset = Stream()
    with pytest.raises(InputError, match="Stream has no length.* Pass `every=n`"):
        trainer.train()


def test_a_metric_of_evaluations_needs_evaluations(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="eval_train_accuracy")
    with pytest.raises(InputError, match="eval_strategy='no'"):
        build_trainer(tmp_path, callback, options={"eval_dataset": Texts()}).train()


def test_a_directory_in_use_says_how_a_trainer_resumes(tmp_path: Path) -> None:
    for expected in (None, r"resume from a checkpoint \(`resume_from_checkpoint=`\)"):
        callback = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run")
        trainer = build_trainer(tmp_path, callback, max_steps=5)
        if expected is None:
            trainer.train()
        else:
            with pytest.raises(RunExistsError, match=expected):
                trainer.train()


def test_options_reach_the_tracker(tmp_path: Path) -> None:
    texts = Texts(per_token=True)
    sampler = PerToken(texts.labels[:8], CLASSES)
    callback = SusceptibilityCallback(
        num_classes=CLASSES,
        inputs={"input_ids": texts.tokens[:8]},
        labels=sampler,
        given_labels=texts.labels[:8].clamp(0),
        policy=rote.ProbePolicy(plain=None, batch=8),
        seed=5,
        name="five",
        save_to=tmp_path / "run",
    )
    build_trainer(tmp_path / "out", callback, kind="token", max_steps=5).train()
    generator = torch.Generator().manual_seed(5)
    assert torch.equal(callback.tracker.batch.labels, sampler(generator))
    (reading,) = callback.tracker.readings
    assert reading.drop_plain is None
    assert reading.validation_accuracy is not None
    record = rote.store.read_run(tmp_path / "run")
    assert record.description["name"] == "five"
    assert record.description["optimizer"]["class"] == "torch.optim.adamw.AdamW"
    assert record.readings[0].drop == reading.drop


@pytest.mark.parametrize("every", ["step", 0, 1.5, True])
def test_every_is_checked(every: Any) -> None:
    with pytest.raises(InputError, match="Expected `every` to be 'epoch' or a positive integer"):
        SusceptibilityCallback(num_classes=CLASSES, every=every)


def test_another_caller_is_refused() -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    arguments = transformers.TrainingArguments(output_dir="unused", use_cpu=True, report_to=[])
    with pytest.raises(InputError, match=r"transformers.Trainer .* use rote.track"):
        callback.on_train_begin(arguments, transformers.TrainerState(), None)


def test_trainer_and_model_are_released_after_training(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(tmp_path, callback, max_steps=5)
    trainer.train()
    assert not any(isinstance(value, Trainer | nn.Module) for value in vars(callback).values())


@pytest.mark.parametrize("package", ["transformers", "accelerate"])
def test_a_missing_package_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "rote.integrations.huggingface")
    expected = rf"`{package}` cannot be imported.* pip install 'rote\[huggingface\]'"
    with pytest.raises(MissingExtraError, match=expected):
        import_module("rote.integrations.huggingface")
