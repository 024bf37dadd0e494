import logging
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning", reason="needs the extra `lightning`")

from lightning.pytorch.callbacks import ModelCheckpoint

import rote
from rote.errors import InputError, RoteWarning
from rote.integrations.lightning import SusceptibilityCallback
from tests.integrations.lightning_runs import CLASSES, QUIET, Classifier, fit, loader, trainer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("lightning"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]

MANY = 60


def rule(**options: Any) -> rote.StopRule:
    """Counts every reading."""
    return rote.StopRule(**({"train_accuracy": 0.0, "patience": 2, "min_epochs": 1} | options))


def keep_and_end(readings: list[rote.Reading]) -> tuple[int, int]:
    """Which reading to keep, and after which to stop, by the plain words of the rule."""
    lowest, keep, waited = float("inf"), 0, 0
    for reading in readings:
        if reading.susceptibility <= lowest:
            lowest, keep, waited = reading.susceptibility, reading.step, 0
        else:
            waited += 1
        if waited == 2:
            return keep, reading.step
    raise AssertionError("never stops")


@pytest.mark.parametrize("every", ["epoch", 2])
def test_training_stops_when_the_rule_says_so(
    every: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    free = SusceptibilityCallback(num_classes=CLASSES, every=every, train_accuracy=None)
    torch.manual_seed(0)
    fit(Classifier(), tmp_path, [free], max_epochs=20)
    keep, end = keep_and_end(free.tracker.readings)
    accuracy = "train_accuracy" if every == "epoch" else "batch_accuracy"
    callback = SusceptibilityCallback(
        num_classes=CLASSES, every=every, stop=rule(), train_accuracy=accuracy
    )
    saver = ModelCheckpoint(
        tmp_path / "kept",
        save_top_k=-1,
        filename="{step}",
        **({} if every == "epoch" else {"every_n_train_steps": 2}),
    )
    torch.manual_seed(0)
    module = PerBatch() if every == 2 else Classifier()
    with caplog.at_level(logging.INFO):
        trained = fit(module, tmp_path, [callback, saver], max_epochs=20)
    readings = callback.tracker.readings
    assert [r.drop for r in readings] == [r.drop for r in free.tracker.readings[:end]]
    assert (callback.keep, callback.stop.stopped) == (keep, True)
    assert callback.stop.reason in caplog.text
    # The weights of the checkpoint to keep are those of the kept reading.
    step = int(readings[keep - 1].global_step)
    assert callback.keep_path == str(tmp_path / "kept" / f"step={step}.ckpt")
    assert torch.load(callback.keep_path, weights_only=True)["global_step"] == step
    assert trained.global_step == readings[-1].global_step


class PerBatch(Classifier):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.loss(batch)
        self.log("batch_accuracy", 0.5)
        return loss


def test_the_checkpoint_to_keep_is_saved_on_request(tmp_path: Path) -> None:
    path = tmp_path / "keep.ckpt"
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule(), keep_to=path)
    fit(Classifier(), tmp_path, [callback], max_epochs=MANY)
    assert callback.keep_path == str(path)
    checkpoint = torch.load(path, weights_only=True)
    kept = callback.tracker.readings[callback.keep - 1]
    assert checkpoint["global_step"] == kept.global_step
    last = checkpoint["callbacks"][callback.state_key]["tracker"]["readings"][-1]
    assert last["drop"] == kept.drop
    assert kept.step < callback.tracker.readings[-1].step


def test_a_checkpoint_of_another_run_or_step_is_not_reported_as_the_one_to_keep(
    tmp_path: Path,
) -> None:
    def run(**options: Any) -> SusceptibilityCallback:
        torch.manual_seed(0)
        callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule())
        saver = ModelCheckpoint(tmp_path, filename="{step}", **options)
        fit(Classifier(), tmp_path, [callback, saver], max_epochs=MANY)
        return callback

    first = run(save_top_k=-1)
    assert first.keep_path is not None
    (tmp_path / "truncated.ckpt").write_bytes(b"PK")
    for path in tmp_path.glob("step=*.ckpt"):
        path.rename(path.with_name(f"other-{path.name}"))
    # The same numbers, but files of another run; its own are deleted until the last.
    with pytest.warns(UserWarning, match="exists and is not empty"):
        second = run(save_top_k=1)
    assert second.keep == first.keep
    assert second.keep < len(second.tracker.readings)
    assert second.keep_path is None


def test_a_rule_continues_after_a_resume(tmp_path: Path) -> None:
    def run(epochs: int, stop: rote.StopRule, path: Path | None = None) -> SusceptibilityCallback:
        torch.manual_seed(0)
        callback = SusceptibilityCallback(num_classes=CLASSES, stop=stop)
        saver = ModelCheckpoint(tmp_path, filename="last", enable_version_counter=False)
        made = trainer(tmp_path, [callback, saver], max_epochs=epochs)
        made.fit(Classifier(), loader(), ckpt_path=path)
        return callback

    before = run(3, rule(patience=50))
    with pytest.warns(UserWarning, match="exists and is not empty"):
        after = run(4, rule(patience=50), tmp_path / "last.ckpt")
    replayed = rule(patience=50)
    for reading in after.tracker.readings:
        replayed.update(reading)
    assert after.stop.state_dict() == replayed.state_dict()
    assert after.tracker.readings[:3] == before.tracker.readings


def test_a_stop_without_a_training_accuracy_is_refused(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule(), train_accuracy="acc")
    refusal = pytest.raises(InputError, match="`stop` needs.*`acc` is not among .*`train_accuracy`")
    with refusal, pytest.warns(RoteWarning, match="metric `acc` .* only `train_accuracy`"):
        fit(Classifier(), tmp_path, [callback])


def test_a_rule_that_counted_nothing_is_pointed_out_once(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule(train_accuracy=1.0))
    with pytest.warns(RoteWarning) as caught:
        fit(Classifier(), tmp_path, [callback], max_epochs=3)
    highest = max(reading.train_accuracy for reading in callback.tracker.readings)
    (said,) = [str(entry.message) for entry in caught if entry.category is RoteWarning]
    assert "`stop` counted none of the 3 readings" in said
    assert f"of 1 or more (the highest was {highest:.3g})" in said
    assert (callback.keep, callback.keep_path) == (None, None)


def test_a_new_run_does_not_begin_where_the_last_one_stopped(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule())
    for _ in range(2):
        torch.manual_seed(0)
        fit(Classifier(), tmp_path, [callback], max_epochs=MANY)
        assert (callback.keep, len(callback.tracker.readings)) == keep_and_end(
            callback.tracker.readings
        )


class LogsNotAlways(Classifier):
    def log(self, name: str, *args: Any, **kwargs: Any) -> None:
        if name != "train_accuracy" or self.current_epoch != 1:
            super().log(name, *args, **kwargs)


def test_an_epoch_without_a_training_accuracy_does_not_count(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule(patience=50))
    fit(LogsNotAlways(), tmp_path, [callback], max_epochs=4)
    replayed = rule(patience=50)
    for reading in callback.tracker.readings:
        if reading.step != 2:
            replayed.update(reading)
    assert "train_accuracy" not in callback.tracker.readings[1].metrics
    assert callback.stop.state_dict() == replayed.state_dict()
