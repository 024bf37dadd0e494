import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import RunExistsError
from rote.records import Reading
from rote.store import read_run
from rote.workloads.architectures import build_architecture
from rote.workloads.checkpoints import load_checkpoint
from rote.workloads.data.splits import prepare
from rote.workloads.loop import train
from rote.workloads.randomness import derive_seed, make_torch_generator
from rote.workloads.spec import FieldError, RunSpec
from rote.workloads.workload import Workload, make_network
from tests.workloads.small_runs import numbers, small_spec


def by_hand(spec: RunSpec) -> tuple[nn.Module, list[dict[str, float]]]:
    """The same run in a few lines, without tracker, workload or loop."""
    data = prepare(spec)
    x, y = data.train.batch(slice(None)), data.labels
    torch.manual_seed(derive_seed(spec.seed, "weights"))
    options = dict(spec.architecture.options)
    model = build_architecture("mlp", num_classes=10, in_channels=1, image_size=8, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    found = []
    for epoch in range(1, spec.epochs + 1):
        lr = 0.05 * (1 + math.cos(math.pi * (epoch - 1) / spec.epochs))
        optimizer.param_groups[0]["lr"] = lr
        order = torch.randperm(len(x), generator=make_torch_generator(spec.seed, "order", epoch))
        torch.manual_seed(derive_seed(spec.seed, "layers", epoch))
        for index in order.split(spec.batch):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
        model.eval()
        hits = model(x).argmax(1) == y
        assert data.wrong is not None
        assert data.test is not None
        tested = model(data.test.batch(slice(None))).argmax(1) == data.test_labels
        model.train()
        found.append(
            {
                "lr": lr,
                "train_accuracy": float(hits.double().mean()),
                "clean_accuracy": float(hits[~data.wrong].double().mean()),
                "noisy_accuracy": float(hits[data.wrong].double().mean()),
                "test_accuracy": float(torch.as_tensor(tested).double().mean()),
            }
        )
    return model, found


def test_a_run_follows_its_spec() -> None:
    spec = small_spec()
    run = train(spec)
    model, expected = by_hand(spec)
    assert run.model is not None
    for ours, theirs in zip(run.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for reading, metrics in zip(run.readings, expected, strict=True):
        found = dict(reading.metrics)
        assert found.pop("train_loss") > 0
        assert found == pytest.approx(metrics)


def test_the_holdout_is_probed_with_its_given_labels() -> None:
    spec = small_spec()
    run, data = train(spec), prepare(spec)
    last = run.readings[-1]
    assert run.model is not None
    assert last.predictions is not None
    run.model.eval()
    predicted = run.model(data.holdout).argmax(1)
    np.testing.assert_array_equal(last.predictions, predicted)
    assert data.holdout_labels is not None
    assert last.validation_accuracy == (predicted == data.holdout_labels).double().mean()


def test_runs_are_reproducible_and_leave_global_state_unchanged() -> None:
    before = torch.get_rng_state(), torch.get_num_threads()
    first, second = train(small_spec(), threads=2), train(small_spec(), threads=2)
    assert numbers(first.readings) == numbers(second.readings)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]
    assert numbers(train(small_spec(seed=1)).readings) != numbers(first.readings)


def test_a_saved_run_has_the_same_numbers_and_all_its_files(tmp_path: Path) -> None:
    spec = small_spec(name="first")
    heard: list[Reading] = []
    run = train(spec, tmp_path / "run", progress=heard.append)
    assert numbers(tuple(heard)) == numbers(run.readings) == numbers(train(spec).readings)
    record = read_run(tmp_path / "run")
    assert numbers(record.readings) == numbers(run.readings)
    assert record.description["name"] == "first"
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == [
        "checkpoints",
        "claim.lock",
        "journal.jsonl",
        "labels.npz",
        "neighbor_votes.npy",
        "predictions.bin",
        "run.json",
        "spec.toml",
        "workload.json",
        "writer.lock",
    ]
    assert RunSpec.from_toml(tmp_path / "run" / "spec.toml") == spec
    assert run.description["data"]["noise"]["realized_rate"] == pytest.approx(0.45, abs=0.1)
    with np.load(tmp_path / "run" / "labels.npz") as saved:
        data = prepare(spec)
        np.testing.assert_array_equal(saved["labels"][saved["train"]], data.labels)
        np.testing.assert_array_equal(saved["wrong"][saved["train"]], data.wrong)


def test_checkpoints_are_the_weights_after_their_epoch(tmp_path: Path) -> None:
    spec = small_spec()
    train(spec, tmp_path)
    model = make_network(spec, prepare(spec), torch.device("cpu"))
    for step, epochs in ((3, 3), (1, 1)):
        load_checkpoint(tmp_path, step, model)
        workload = Workload(spec, prepare(spec), torch.device("cpu"))
        for epoch in range(1, epochs + 1):
            workload.train_epoch(epoch)
        for ours, theirs in zip(model.parameters(), workload.model.parameters(), strict=True):
            assert torch.equal(ours, theirs)


def test_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = train(small_spec(), tmp_path)
    heard: list[Reading] = []
    again = train(small_spec(name="other", device="cpu"), tmp_path, progress=heard.append)
    assert heard == []
    assert numbers(again.readings) == numbers(first.readings)
    assert again.model is None


def test_another_run_is_refused(tmp_path: Path) -> None:
    train(small_spec(epochs=1), tmp_path / "run")
    other = small_spec(epochs=2, optimizer={"name": "sgd", "lr": 0.2})
    with pytest.raises(RunExistsError, match=r"differs in epochs, optimizer\.lr\. Choose"):
        train(other, tmp_path / "run")
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracker = rote.track(
        model, optimizer, inputs=torch.randn(4, 2), num_classes=2, save_to=tmp_path / "own"
    )
    tracker.probe()
    tracker.close()
    with pytest.raises(RunExistsError, match=r"has no workload\.json"):
        train(small_spec(), tmp_path / "own")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(RunExistsError, match="is in use"):
        train(small_spec(), tmp_path / "full")


def test_only_every_nth_epoch_is_measured(tmp_path: Path) -> None:
    probe = {"holdout_size": 12, "batch": 8, "every": 2}
    run = train(small_spec(epochs=4, probe=probe), tmp_path)
    assert [reading.step for reading in run.readings] == [2, 4]
    plain = train(small_spec(epochs=4))
    # Training does not depend on how often it is measured.
    assert run.readings[-1].metrics == plain.readings[-1].metrics
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == [
        "step-00002.safetensors",
        "step-00004.safetensors",
    ]


ROBUST = ["nce-rce", "nfl-rce"]


@pytest.mark.parametrize("objective", [*ROBUST, "mixup", {"name": "cdr", "l1": 1e-4}])
def test_every_objective_trains(objective: Any) -> None:
    run = train(small_spec(objective=objective, clip_norm=5.0))
    assert all(math.isfinite(reading.drop) for reading in run.readings)
    assert ("drop_cross_entropy" in run.readings[-1].metrics) is (objective in ROBUST)


@pytest.mark.parametrize("objective", ROBUST)
def test_the_drop_of_cross_entropy_equals_that_of_a_separate_probe(objective: str) -> None:
    spec = small_spec(epochs=1, objective=objective)
    reading = train(spec).readings[0]
    data = prepare(spec)
    workload = Workload(spec, data, torch.device("cpu"))
    workload.train_epoch(1)
    tracker = rote.track(
        workload.model,
        workload.optimizer,
        inputs=data.holdout,
        num_classes=10,
        policy=rote.ProbePolicy(batch=8),
    )
    other = tracker.probe()
    assert other is not None
    assert reading.metrics["drop_cross_entropy"] == other.drop
    assert reading.drop != other.drop


def test_gradients_are_clipped() -> None:
    optimizer = {"name": "sgd", "lr": 0.5, "momentum": 0, "weight_decay": 0}
    spec = small_spec(epochs=1, batch=64, clip_norm=1e-2, optimizer=optimizer)  # one step
    start = make_network(spec, prepare(spec), torch.device("cpu"))
    end = train(spec).model
    assert end is not None
    pairs = zip(start.parameters(), end.parameters(), strict=True)
    moved = sum((after - before).square().sum().item() for before, after in pairs) ** 0.5
    assert moved == pytest.approx(0.5 * 1e-2, rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"bf16": True},
        {"channels_last": False},
        {"data": {"name": "digits", "train_size": 60, "crop": 1, "flip": True}},
        {"optimizer": "adamw", "schedule": "exponential"},
        {"probe": {"holdout": "train", "batch": 8, "mode": "eval", "step": "fresh"}},
        {"probe": {"holdout_size": 12, "batch": 8, "resample": True, "same_masks": False}},
    ],
)
def test_every_option_trains_a_convolutional_network(changes: dict[str, Any]) -> None:
    architecture = {"name": "cnn", "options": {"width": 4, "depth": 2, "dropout": 0.1}}
    run = train(small_spec(architecture=architecture, **changes))
    assert len(run.readings) == 3
    assert numbers(run.readings) == numbers(
        train(small_spec(architecture=architecture, **changes)).readings
    )


def test_no_batch_has_a_single_sample() -> None:
    spec = small_spec(
        data={"name": "digits", "train_size": 61},  # 49 = 3 · 16 + 1 remain
        architecture={"name": "mlp", "options": {"width": 8, "batch_norm": True}},
    )
    workload = Workload(spec, prepare(spec), torch.device("cpu"))
    assert [len(batch) for batch in workload._draw_batches(1)] == [16, 16, 17]
    assert sorted(torch.cat(workload._draw_batches(1)).tolist()) == list(range(49))
    train(spec)


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FieldError, match=r"`architecture` does not fit .*'wdth'.*'width'"):
        train(small_spec(architecture={"name": "mlp", "options": {"wdth": 3}}))


def test_a_device_that_is_not_there_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(FieldError, match=r"`device` to be an available device \(cpu\), got"):
        train(small_spec(device="cuda"))
