"""A tracker says what happened when it happens, once, also after a resume, and tells loggers."""

from pathlib import Path

import pytest

from rote.errors import InputError
from rote.interpretation import find_notes
from rote.records import Reading
from rote.store import read_run, read_table
from tests.loggers import keep_wandb_here, new_mlflow_store
from tests.tracking.logged_run import LABELS, Run

pytestmark = pytest.mark.xdist_group("loggers")

LEARNED = "Training accuracy is 99.5%: any label errors are memorized by now."
PASSED = (
    "Training accuracy (80.0%) has passed the share of correct labels (75.0%): memorization begins "
    "here."
)


def said(run: Run, *accuracies: float) -> list[str]:
    return [run.tracker.probe(train_accuracy=accuracy).note for accuracy in accuracies]


def test_a_note_comes_with_its_reading_and_once() -> None:
    run = Run(None, given_labels=LABELS)
    run.tracker.noise_rate = 0.25
    assert said(run, 0.1, 0.8, 0.9, 0.995, 0.995) == ["", PASSED, "", LEARNED, ""]
    assert run.tracker.notes == {2: PASSED, 4: LEARNED}
    assert run.tracker.notes == find_notes(run.tracker.readings, 0.25)
    with pytest.raises(InputError, match="`noise_rate` to be"):
        run.tracker.noise_rate = 25


def test_failed_probe_emits_no_note(tmp_path: Path) -> None:
    told: list[Reading] = []

    def tell(reading: Reading) -> None:
        told.append(reading)
        if len(told) == 1:
            raise RuntimeError("no")

    run = Run([tell, tmp_path / "a"])
    with pytest.raises(RuntimeError, match="no"):
        said(run, 0.995)
    assert run.tracker.notes == {}
    assert said(run, 0.995, 0.995) == [LEARNED, ""]
    assert [reading.note for reading in told] == [LEARNED, LEARNED, ""]


@pytest.mark.parametrize("rate_first", [True, False])
def test_resumed_run_does_not_repeat_notes(tmp_path: Path, rate_first: bool) -> None:
    first = Run(tmp_path / "a")
    first.tracker.noise_rate = 0.25
    assert said(first, 0.8, 0.9) == [PASSED, ""]
    state = first.tracker.state_dict()
    first.tracker.close()
    second = Run(tmp_path / "a", resume=True)
    second.tracker.noise_rate = 0.25
    if rate_first:
        second.tracker.load_state_dict(state)
    assert said(second, 0.9, 0.995) == ["", LEARNED]
    assert second.tracker.notes == {1: PASSED, 4: LEARNED}
    second.tracker.close()
    assert find_notes(read_run(tmp_path / "a").readings, 0.25) == {1: PASSED, 4: LEARNED}


def test_repeated_readings_repeat_their_notes() -> None:
    run = Run(None)
    state = run.state()
    assert said(run, 0.995) == [LEARNED]
    run.load(state)
    assert said(run, 0.5, 0.995) == ["", LEARNED]


def test_mlflow_has_a_tag_for_each_note_and_reads_as_before(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    uri = new_mlflow_store(tmp_path)
    run = Run([f"mlflow:e@{uri}", tmp_path / "a"], name="a")
    said(run, 0.5, 0.995)
    run.tracker.close()
    client = mlflow.MlflowClient(tracking_uri=uri)
    (found,) = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    tags = {name: tag for name, tag in found.data.tags.items() if name.startswith("rote.note")}
    assert tags == {"rote.note.000002": LEARNED}
    assert "note" not in read_table(f"mlflow:e@{uri}").frame.columns


def test_tensorboard_has_a_text_for_each_note_and_reads_as_before(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = Run([f"tensorboard:{tmp_path}/tb", tmp_path / "a"], name="a")
    said(run, 0.5, 0.995)
    run.tracker.close()
    events = EventAccumulator(str(tmp_path / "tb" / "a")).Reload()
    (note,) = events.Tensors("rote/note")
    assert (note.step, note.tensor_proto.string_val[0].decode()) == (2, LEARNED)
    mine, theirs = read_table(tmp_path / "a").frame, read_table(f"tensorboard:{tmp_path}/tb").frame
    assert mine["drop"].to_list() == theirs["drop"].to_list()


def test_wandb_has_a_text_for_each_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="needs rote[wandb]")
    keep_wandb_here(monkeypatch, tmp_path)
    with wandb.init(project="notes") as open_run:
        run = Run("wandb:")
        said(run, 0.5)
        assert open_run.summary.get("rote/note") is None
        said(run, 0.995, 0.995)
        run.tracker.close()
        assert open_run.summary["rote/note"] == LEARNED
