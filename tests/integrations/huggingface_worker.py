"""One of two ranks that train with a Trainer, with and without the callback, and resume."""

import json
import os
from pathlib import Path
from typing import Any

import torch

import rote
from rote.integrations.huggingface import SusceptibilityCallback
from tests.integrations.huggingface_runs import (
    CLASSES,
    assert_identical,
    build_trainer,
    left_behind,
)


def readings_of(callback: SusceptibilityCallback) -> list[dict[str, Any]]:
    assert callback.tracker is not None
    found = [reading.to_dict() for reading in callback.tracker.readings]
    for reading in found:
        del reading["seconds"]
    return found


def main(place: str, kind: str) -> None:
    folder = Path(place)
    torch.set_num_threads(1)
    arguments = {"save_strategy": "epoch", "ddp_backend": "gloo", "kind": kind}

    def callback(save_to: Path | None = None) -> SusceptibilityCallback:
        stop = rote.StopRule(train_accuracy=0.0, patience=9, min_epochs=1)
        return SusceptibilityCallback(num_classes=CLASSES, stop=stop, save_to=save_to)

    whole = callback(folder / "run")
    probed = build_trainer(folder / "probed", whole, **arguments)
    probed.train()
    seen = left_behind(probed)
    bare = build_trainer(folder / "bare", **arguments)
    bare.train()
    assert_identical(seen, left_behind(bare))
    resumed = callback()
    trainer = build_trainer(folder / "probed", resumed, **arguments)
    trainer.train(resume_from_checkpoint=str(folder / "probed" / "checkpoint-6"))
    assert readings_of(resumed) == readings_of(whole)
    assert_identical(left_behind(trainer)["weights"], seen["weights"])
    found = {
        "readings": readings_of(whole),
        "keep": whole.keep,
        "world": torch.distributed.get_world_size(),
        "wrapped": type(probed.model_wrapped).__name__,
    }
    (folder / f"rank{os.environ['RANK']}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
