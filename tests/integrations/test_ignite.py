from pathlib import Path
from typing import Any

import pytest
import torch

import rote
from rote.errors import InputError, RoteWarning
from tests.integrations.small_runs import (
    BATCH,
    CLASSES,
    Augmented,
    DeepCopies,
    Network,
    X,
    Y,
    assert_as_expected,
    bits,
)
from tests.integrations.watching import Watching

pytest.importorskip("ignite", reason="needs rote[ignite]")

from ignite.engine import Engine, Events, create_supervised_trainer
from ignite.handlers import Checkpoint
from ignite.metrics import Accuracy
from torch.utils.data import DataLoader

from rote.integrations.ignite import SusceptibilityCallback

pytestmark = pytest.mark.slow


class Checked(DeepCopies, SusceptibilityCallback):
    pass


def build(callback: Any = None, *, has_metric: bool = False) -> Any:
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    engine = create_supervised_trainer(
        model,
        optimizer,
        torch.nn.functional.cross_entropy,
        output_transform=lambda x, y, y_pred, loss: (y_pred, y),
    )
    if has_metric:
        Accuracy().attach(engine, "train_accuracy")
    if callback is not None:
        callback.attach(engine, model=model, optimizer=optimizer)
    return engine, model, optimizer


def run(callback: Any = None, *, epochs: int = 3, **options: Any) -> Any:
    engine, model, optimizer = build(callback, **options)
    torch.manual_seed(5)
    engine.run(DataLoader(Augmented(), batch_size=BATCH, shuffle=True), max_epochs=epochs)
    left = [model.state_dict(), optimizer.state_dict(), torch.get_rng_state(), engine.state.output]
    return engine, bits(left)


@pytest.mark.parametrize("every", ["epoch", 4])
def test_training_is_bit_identical_and_readings_are_those_of_deep_copies(every: Any) -> None:
    _, expected = run()
    callback = Checked(
        num_classes=CLASSES,
        every=every,
        signals=[Watching()],
        policy=rote.ProbePolicy(verify=True),
    )
    engine, found = run(callback)
    assert found == expected
    assert_as_expected(callback, 3 if every == "epoch" else 4)
    assert engine.state.metrics["susceptibility"] == callback.tracker.susceptibility
    epochs = [1, 2, 3] if every == "epoch" else [1, 2, 2, 3]
    assert [reading.epoch for reading in callback.tracker.readings] == epochs
    assert all("watched" in reading.metrics for reading in callback.tracker.readings)


@pytest.mark.parametrize("has_metric", [False, True])
def test_the_accuracy_is_the_engines_or_measured(has_metric: bool) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    engine, _ = run(callback, has_metric=has_metric)
    last = callback.tracker.readings[-1].train_accuracy
    assert 0 < last <= 1
    if has_metric:
        assert last == engine.state.metrics["train_accuracy"]


def test_the_rule_stops_the_engine_and_the_verdict_names_the_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = rote.StopRule(train_accuracy=0.0, patience=1, min_epochs=1)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule, save_to=tmp_path / "run")
    with caplog.at_level("INFO", logger="rote"):
        engine, _ = run(callback, epochs=60)
    assert engine.state.epoch == len(callback.tracker.readings) < 60
    assert callback.keep == len(callback.tracker.readings) - 1
    expected = rote.select(tmp_path / "run").pick.step
    assert callback.verdict.pick.step == expected
    assert f"step {expected} of" in caplog.text


def test_a_resumed_engine_continues_bit_for_bit(tmp_path: Path) -> None:
    whole = SusceptibilityCallback(num_classes=CLASSES)
    run(whole, epochs=4)
    first = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run")
    engine, model, optimizer = build(first)
    saved: dict[str, Any] = {}

    def save() -> None:
        parts = {"engine": engine, "model": model, "optimizer": optimizer, "rote": first}
        saved.update({name: part.state_dict() for name, part in parts.items()})
        saved["random"] = torch.get_rng_state()
        torch.save(saved, tmp_path / "saved.pt")

    engine.add_event_handler(Events.EPOCH_COMPLETED(once=2), save)
    torch.manual_seed(5)
    engine.run(DataLoader(Augmented(), batch_size=BATCH, shuffle=True), max_epochs=3)
    second = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run")
    engine, model, optimizer = build(second)
    state = torch.load(tmp_path / "saved.pt", weights_only=True)
    parts = {"engine": engine, "model": model, "optimizer": optimizer, "rote": second}
    Checkpoint.load_objects(to_load=parts, checkpoint=state)
    torch.set_rng_state(state["random"])
    engine.run(DataLoader(Augmented(), batch_size=BATCH, shuffle=True), max_epochs=4)
    found = [(r.step, r.drop, r.susceptibility) for r in second.tracker.readings]
    assert found == [(r.step, r.drop, r.susceptibility) for r in whole.tracker.readings]
    assert len(rote.store.read_run(tmp_path / "run").readings) == 4


def test_a_second_run_of_the_same_network_resumes() -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    engine, _, _ = build(callback)
    loader = DataLoader(Augmented(), batch_size=BATCH)
    engine.run(loader, max_epochs=1)
    engine.run(loader, max_epochs=2)
    assert [reading.step for reading in callback.tracker.readings] == [1, 2]


def test_a_list_of_batches_has_nothing_to_draw_from() -> None:
    batches = list(zip(X.split(BATCH), Y.split(BATCH), strict=True))
    engine, _, _ = build(SusceptibilityCallback(num_classes=CLASSES))
    with pytest.raises(InputError, match="runs over a list. Pass `inputs=`"):
        engine.run(batches, max_epochs=1)
    callback = SusceptibilityCallback(num_classes=CLASSES, inputs=X)
    engine, _, _ = build(callback)
    with pytest.warns(RoteWarning, match="The readings have no training accuracy"):
        engine.run(batches, max_epochs=1)
    assert len(callback.tracker.readings) == 1


def test_it_needs_the_number_of_classes() -> None:
    engine, _, _ = build(SusceptibilityCallback(inputs=X))
    with pytest.raises(InputError, match="`num_classes` to be an integer"):
        engine.run([(X, Y)], max_epochs=1)
    assert isinstance(engine, Engine)


def test_the_verdict_names_the_file_that_a_pattern_says(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    with pytest.raises(InputError, match=r"`checkpoints` to be a path with \{step\}.*\{wrong\}"):
        SusceptibilityCallback(num_classes=CLASSES, checkpoints="{wrong}.pt")
    callback = SusceptibilityCallback(
        num_classes=CLASSES,
        inputs=X,
        given_labels=Y,
        name="mine",
        checkpoints=f"{tmp_path}/net_{{epoch}}.pt",
        save_to=[tmp_path / "run", f"tensorboard:{tmp_path}/tb"],
    )
    engine, model, _ = build(callback)

    @engine.on(Events.EPOCH_COMPLETED)  # type: ignore[untyped-decorator]
    def save(engine: Engine) -> None:
        torch.save(model.state_dict(), tmp_path / f"net_{engine.state.epoch}.pt")

    engine.run(DataLoader(Augmented(), batch_size=BATCH, shuffle=True), max_epochs=3)
    assert callback.verdict is not None
    pick = callback.verdict.pick
    assert pick.file == tmp_path / f"net_{pick.step}.pt"
    assert rote.select(f"tensorboard:{tmp_path}/tb").pick.file == pick.file
