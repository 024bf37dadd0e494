"""What all callbacks share, seen through the two large ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("lightning", reason="needs the extra `lightning`")
pytest.importorskip("transformers", reason="needs rote[huggingface]")

from lightning.pytorch.callbacks import ModelCheckpoint

import rote
from rote.errors import InputError, RoteWarning
from rote.integrations.huggingface import SusceptibilityCallback as ForTrainer
from rote.integrations.lightning import SusceptibilityCallback as ForLightning
from rote.store.run_record import find_checkpoint
from tests.integrations.huggingface_runs import CLASSES, Texts, build_trainer
from tests.integrations.lightning_runs import QUIET, Classifier, fit

pytestmark = [pytest.mark.slow, *[pytest.mark.filterwarnings(entry) for entry in QUIET]]


def test_lightning_names_the_checkpoint_of_the_verdict(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    callback = ForLightning(num_classes=3, save_to=tmp_path / "run")
    saver = ModelCheckpoint(tmp_path / "kept", save_top_k=-1, filename="{epoch}")
    with caplog.at_level("INFO"):
        fit(Classifier(), tmp_path, [callback, saver], max_epochs=5)
    step = rote.select(tmp_path / "run").pick.step
    assert callback.verdict.pick.step == step
    assert callback.verdict.headline in caplog.text
    assert f"epoch={step - 1}.ckpt" in caplog.text
    for step in range(1, 6):
        found = find_checkpoint(tmp_path / "run", step)
        assert found == (tmp_path / "kept" / f"epoch={step - 1}.ckpt").resolve()
    assert callback.verdict.pick.file == find_checkpoint(
        tmp_path / "run", callback.verdict.pick.step
    )


def test_the_verdict_uses_the_noise_rate_of_the_stop_rule(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rule = rote.StopRule(noise_rate=0.9, patience=50)
    callback = ForLightning(num_classes=3, save_to=tmp_path / "run", stop=rule)
    fit(Classifier(), tmp_path, [callback], max_epochs=3)
    assert callback.verdict.rule == "noise-rate"
    assert callback.verdict.pick.step == callback.keep


@pytest.mark.parametrize("is_quiet", [False, True])
def test_hugging_face_prints_the_verdict_with_its_checkpoint(
    is_quiet: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = ForTrainer(save_to=tmp_path / "run")
    build_trainer(tmp_path / "out", callback, save_strategy="epoch", disable_tqdm=is_quiet).train()
    step = rote.select(tmp_path / "run").pick.step
    folder = tmp_path / "out" / f"checkpoint-{5 * step}"
    assert folder.is_dir()
    printed = capsys.readouterr().out
    assert callback.verdict.headline in printed
    assert folder.name in printed
    assert rote.select(tmp_path / "run").pick.file == folder.resolve()


def test_events_are_reported_when_they_happen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    callback = ForLightning(num_classes=3, stop=rote.StopRule(noise_rate=0.99, patience=50))
    with caplog.at_level("INFO"):
        fit(Classifier(), tmp_path, [callback], max_epochs=2)
    notes = callback.tracker.notes
    assert notes
    for step, note in notes.items():
        assert f"step {step}: {note}" in caplog.text


def test_a_run_without_a_verdict_ends_well_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callback = ForTrainer(save_to=tmp_path / "run", every=100)
    trainer = build_trainer(tmp_path / "out", callback, max_steps=5)
    with (
        caplog.at_level("INFO", logger="rote"),
        pytest.warns(RoteWarning, match="Training ended without a probe"),
    ):
        trainer.train()
    assert callback.verdict is None
    assert "step 5 of" not in caplog.text


@pytest.mark.parametrize("kind", ["sequence", "token", "adapters"])
def test_the_number_of_classes_is_the_models(kind: str, tmp_path: Path) -> None:
    found = []
    for own in (None, CLASSES):
        callback = ForTrainer(num_classes=own)
        build_trainer(tmp_path, callback, kind=kind, max_steps=5).train()
        found.append(callback.tracker.readings[0].drop)
    assert found[0] == found[1]


def test_lightning_needs_the_number_of_classes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`num_classes` to be an integer"):
        fit(Classifier(), tmp_path, [ForLightning()])


def test_inputs_may_be_taken_out_of_a_batch_in_both(tmp_path: Path) -> None:
    named = ForTrainer(inputs_of=lambda batch: {"input_ids": batch["input_ids"]})
    build_trainer(tmp_path, named, max_steps=5).train()
    assert set(dict(named.tracker.batch.inputs)) == {"input_ids"}
    halved = ForLightning(num_classes=3, inputs_of=lambda batch: batch[0] / 2, measure_accuracy=0)
    whole = ForLightning(num_classes=3, measure_accuracy=0)
    for callback in (halved, whole):
        fit(Classifier(), tmp_path, [callback], max_epochs=1)
    assert torch.equal(halved.tracker.batch.inputs * 2, whole.tracker.batch.inputs)


def test_nearest_neighbor_votes_are_recorded(tmp_path: Path) -> None:
    texts = Texts()
    votes = np.random.default_rng(0).dirichlet(np.ones(CLASSES), len(texts)).astype(np.float32)
    inputs: Any = {"input_ids": texts.tokens, "attention_mask": texts.mask}
    callback = ForTrainer(
        inputs=inputs,
        given_labels=texts.labels,
        neighbor_votes=votes,
        save_to=tmp_path / "run",
    )
    build_trainer(tmp_path / "out", callback, max_steps=5).train()
    found = np.load(tmp_path / "run" / "neighbor_votes.npy", allow_pickle=False)
    assert np.array_equal(found, votes)
