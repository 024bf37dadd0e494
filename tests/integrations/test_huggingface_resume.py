import json
from pathlib import Path
from typing import Any

import pytest
import torch

import rote
from rote.errors import StateError
from rote.store import read_run

pytest.importorskip("transformers", reason="needs rote[huggingface]")

from transformers import TrainerCallback

from rote.integrations.huggingface import SusceptibilityCallback, from_json, to_json
from tests.integrations.huggingface_runs import (
    CLASSES,
    Texts,
    assert_identical,
    build_trainer,
    left_behind,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]


class KilledError(Exception):
    pass


class Kill(TrainerCallback):
    """Ends a training in the middle, after a checkpoint was saved and training went on."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise KilledError


def values(callback: SusceptibilityCallback) -> list[dict[str, Any]]:
    found = []
    for reading in callback.tracker.readings:
        found.append(reading.to_dict() | {"predictions": reading.predictions})
        del found[-1]["seconds"]
        if reading.predictions is not None:
            found[-1]["predictions"] = reading.predictions.tolist()
    return found


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "end_of_epoch": ({}, {"save_strategy": "epoch"}),
    "last_step_of_epoch": ({}, {"save_strategy": "steps", "save_steps": 5}),
    "within_an_epoch": ({"every": 3}, {"save_strategy": "steps", "save_steps": 7}),
    "resampled_holdout": (
        {
            "policy": rote.ProbePolicy(batch=6, resample=True),
            "inputs": {"input_ids": Texts().tokens, "attention_mask": Texts().mask},
        },
        {"save_strategy": "epoch", "gradient_accumulation_steps": 2},
    ),
    "token": ({}, {"save_strategy": "epoch", "kind": "token", "bf16": True}),
    "waiting_for_an_evaluation": (
        {"every": 4, "train_accuracy": "eval_accuracy"},
        {
            **{
                "save_strategy": "steps",
                "save_steps": 4,
                "eval_strategy": "steps",
                "eval_steps": 5,
            },
            "options": {
                "eval_dataset": Texts(),
                "compute_metrics": lambda found: {
                    "accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())
                },
            },
        },
    ),
    "states_restored_by_the_trainer": (
        {},
        {"save_strategy": "epoch", "restore_callback_states_from_checkpoint": True},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_has_the_same_readings(name: str, tmp_path: Path) -> None:
    options, arguments = CASES[name]
    stops = [rote.StopRule(train_accuracy=0.1, patience=9, min_epochs=1) for _ in range(3)]
    whole, killed, resumed = (
        SusceptibilityCallback(num_classes=CLASSES, stop=stop, **options) for stop in stops
    )
    trainer = build_trainer(tmp_path / "whole", whole, **arguments)
    trainer.train()
    expected = left_behind(trainer)

    trainer = build_trainer(tmp_path / "cut", killed, **arguments)
    steps = trainer.args.gradient_accumulation_steps
    trainer.add_callback(Kill(9 // steps if name != "within_an_epoch" else 8))
    with pytest.raises(KilledError):
        trainer.train()
    assert 0 < len(killed.tracker.readings) < len(whole.tracker.readings)

    torch.manual_seed(99)
    trainer = build_trainer(tmp_path / "cut", resumed, **arguments)
    checkpoint = sorted(
        (tmp_path / "cut").glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1])
    )[-1]
    trainer.train(resume_from_checkpoint=str(checkpoint))
    assert values(resumed) == values(whole)
    assert stops[2].state_dict() == stops[0].state_dict()
    assert resumed.keep_path is not None
    found = left_behind(trainer)
    for part in ("weights", "optimizer", "scheduler"):
        assert_identical(found[part], expected[part])


def test_the_journal_of_a_resumed_run_holds_each_reading_once(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, every=2, save_to=tmp_path / "run")
    arguments = {"save_strategy": "steps", "save_steps": 5}
    trainer = build_trainer(tmp_path / "out", callback, **arguments)
    trainer.add_callback(Kill(9))
    with pytest.raises(KilledError):
        trainer.train()
    assert [reading.step for reading in read_run(tmp_path / "run").readings] == [1, 2, 3, 4]
    # The same callback, and a trainer in the same process: the run is not locked by its own past.
    trainer = build_trainer(tmp_path / "out", callback, **arguments)
    trainer.train(resume_from_checkpoint=True)
    readings = read_run(tmp_path / "run").readings
    assert [reading.global_step for reading in readings] == [2, 4, 6, 8, 10, 12, 14]
    assert [r.drop for r in readings] == [r.drop for r in callback.tracker.readings]


def test_a_resumed_run_may_be_recorded_elsewhere(tmp_path: Path) -> None:
    arguments = {"save_strategy": "epoch"}
    first = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(tmp_path / "out", first, **arguments)
    trainer.add_callback(Kill(9))
    with pytest.raises(KilledError):
        trainer.train()
    second = SusceptibilityCallback(num_classes=CLASSES, save_to=[tmp_path / "run"])
    build_trainer(tmp_path / "out", second, **arguments).train(resume_from_checkpoint=True)
    assert [reading.step for reading in read_run(tmp_path / "run").readings] == [1, 2, 3]


def test_a_callback_added_later_starts_with_its_first_reading(tmp_path: Path) -> None:
    arguments = {"save_strategy": "epoch"}
    trainer = build_trainer(tmp_path, **arguments)
    trainer.add_callback(Kill(9))
    with pytest.raises(KilledError):
        trainer.train()
    callback = SusceptibilityCallback(num_classes=CLASSES)
    build_trainer(tmp_path, callback, **arguments).train(resume_from_checkpoint=True)
    readings = callback.tracker.readings
    assert [(reading.step, reading.global_step) for reading in readings] == [(1, 10), (2, 15)]


def test_a_state_of_other_samples_is_refused(tmp_path: Path) -> None:
    arguments = {"save_strategy": "epoch"}
    trainer = build_trainer(tmp_path, SusceptibilityCallback(num_classes=CLASSES), **arguments)
    trainer.add_callback(Kill(9))
    with pytest.raises(KilledError):
        trainer.train()
    other = SusceptibilityCallback(num_classes=CLASSES, samples=5)
    with pytest.raises(StateError, match="`inputs` .* the state was saved with"):
        build_trainer(tmp_path, other, **arguments).train(resume_from_checkpoint=True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.bfloat16])
def test_tensors_survive_json_bit_for_bit(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(256, (2, 3, 16), generator=generator, dtype=torch.uint8)
    state = {"a": [bits.view(dtype), None, 0.1], "b": {"c": torch.tensor(3, dtype=dtype)}, "d": "x"}
    again = from_json(json.loads(json.dumps(to_json(state))))
    assert_identical(again, state)
    assert again["a"][0].shape == state["a"][0].shape
    assert_identical(
        from_json(to_json([torch.empty(0, 3, dtype=dtype)]))[0].shape, torch.Size([0, 3])
    )
