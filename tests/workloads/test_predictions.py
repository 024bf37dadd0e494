"""A trained network predicts new samples as it would have in training."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from rote.errors import CorruptRunError, InputError
from rote.workloads import RunSpec, load_model, prepare, suggest_spec, train
from rote.workloads.evaluation import predict
from tests.workloads.small_runs import read_npz, small_spec

RNG = np.random.default_rng(0)


def table(path: Path, rows: int) -> Path:
    label = RNG.integers(2, size=rows)
    frame = pl.DataFrame(
        {
            "id": np.arange(rows),
            "size": label * 3 + RNG.normal(size=rows).round(3),
            "city": np.where(RNG.random(rows) < 0.5, "Oslo", "Rome"),
            "label": np.where(label == 1, "cow", "cat"),
        }
    )
    frame.write_csv(path)
    return path


def short(spec: RunSpec, epochs: int = 3) -> RunSpec:
    return RunSpec.from_dict(spec.to_dict() | {"epochs": epochs, "signals": []})


def test_rows_of_the_training_table_are_predicted_as_in_training(tmp_path: Path) -> None:
    data = table(tmp_path / "my.csv", 80)
    spec = short(suggest_spec(data))
    done = train(spec, tmp_path / "run")
    model = load_model(tmp_path / "run" / "checkpoints" / "step-00003.safetensors")
    new = pl.read_csv(data).drop("label").reverse()
    new.write_csv(tmp_path / "new.csv")
    found = model.predict(tmp_path / "new.csv")
    splits = prepare(spec)
    assert done.model is not None
    ours = predict(done.model, splits.train)
    rows = read_npz(tmp_path / "run" / "labels.npz")["train"]
    assert np.array_equal(found.classes[::-1][rows], ours.numpy())
    assert np.allclose(found.probabilities.sum(1), 1)
    assert found.class_names == ("cat", "cow")
    assert np.array_equal(model.predict(new).classes, found.classes)
    lines = found.to_csv().splitlines()
    assert lines[0] == "sample,predicted,probability,p(cat),p(cow)"
    assert len(lines) == 81
    assert lines[1].split(",")[1] == found.class_names[found.classes[0]]


def test_a_table_with_other_columns_or_training_data_is_refused(tmp_path: Path) -> None:
    data = table(tmp_path / "my.csv", 60)
    train(short(suggest_spec(data), 1), tmp_path / "run")
    model = load_model(tmp_path / "run")
    with pytest.raises(InputError, match="no city, which the model takes"):
        model.predict({"size": [1.0, 2.0]})
    with pytest.raises(InputError, match="Expected a table"):
        model.predict(np.zeros((3, 3)))
    table(data, 61)
    with pytest.raises(InputError, match=r"my\.csv has changed"):
        model.predict(tmp_path / "my.csv")


def test_arrays_are_normalized_as_in_training(tmp_path: Path) -> None:
    spec = small_spec(epochs=2, data={"name": "digits", "train_size": 60})
    done = train(spec, tmp_path / "run")
    model = load_model(tmp_path / "run")
    splits = prepare(spec)
    assert splits.test is not None
    from rote.workloads.data.lookup import load

    images = load(spec.data).x_test
    assert images is not None
    np.savez(tmp_path / "new.npz", x=images)
    np.save(tmp_path / "new.npy", images)
    assert done.model is not None
    ours = predict(done.model, splits.test).numpy()
    last = load_model(tmp_path / "run" / "checkpoints" / "step-00002.safetensors")
    for place in (tmp_path / "new.npz", tmp_path / "new.npy", images):
        assert np.array_equal(last.predict(place).classes, ours)
    logits = model(torch.from_numpy(images[:5]))
    assert logits.shape == (5, 10)
    with pytest.raises(InputError, match=r"shape \(8, 8, 1\), as in training, got \(4, 4, 1\)"):
        model.predict(np.zeros((2, 4, 4, 1), dtype=np.uint8))


def test_a_folder_is_predicted_file_by_file(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name, color in (("cat", 20), ("dog", 230)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for n in range(20):
            image.new("L", (9, 9), color + n).save(tmp_path / "photos" / name / f"{n:02}.png")
    train(short(suggest_spec(tmp_path / "photos"), 2), tmp_path / "run")
    (tmp_path / "new").mkdir()
    image.new("L", (30, 20), 15).save(tmp_path / "new" / "x.png")
    found = load_model(tmp_path / "run").predict(tmp_path / "new")
    assert found.names == ("x.png",)
    assert found.class_names == ("cat", "dog")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no images"):
        load_model(tmp_path / "run").predict(tmp_path / "empty")


def test_arrays_of_texts_are_counted_with_the_words_of_their_file(tmp_path: Path) -> None:
    texts = np.array(["good fine movie", "bad awful movie"] * 20)
    np.savez(tmp_path / "my.npz", text_train=texts, y_train=np.array([1, 0] * 20))
    train(short(suggest_spec(tmp_path / "my.npz"), 8), tmp_path / "run")
    model = load_model(tmp_path / "run")
    new = np.array(["fine good", "awful unknown words"])
    np.savez(tmp_path / "new.npz", text=new)
    np.save(tmp_path / "new.npy", new)
    found = model.predict(tmp_path / "new.npz")
    assert found.classes.tolist() == [1, 0]
    for same in (tmp_path / "new.npy", new):
        assert np.array_equal(model.predict(same).probabilities, found.probabilities)
    with pytest.raises(InputError, match="Expected texts, as in training, got token ids"):
        model.predict(np.zeros((2, 3), dtype=np.int64))
    np.savez(tmp_path / "my.npz", text_train=texts[:20], y_train=np.array([1, 0] * 10))
    with pytest.raises(InputError, match=r"my\.npz"):
        model.predict(new)


def test_texts_are_counted_with_the_words_of_the_training_set(tmp_path: Path) -> None:
    texts = ["good fine movie", "bad awful movie"] * 20
    frame = {"text": texts, "label": ["pos", "neg"] * 20}
    pl.DataFrame(frame).write_csv(tmp_path / "my.csv")
    done = train(short(suggest_spec(tmp_path / "my.csv"), 15), tmp_path / "run")
    assert "word counts" in done.description["data"]["remarks"][0]
    found = load_model(tmp_path / "run").predict({"text": ["fine good", "awful unknown words"]})
    assert [found.class_names[label] for label in found.classes] == ["pos", "neg"]


def test_file_that_is_not_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which does not exist"):
        load_model(tmp_path / "none")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "checkpoints").mkdir()
    (tmp_path / "own" / "checkpoints" / "step-00001.safetensors").touch()
    with pytest.raises(InputError, match=r"no workload\.json"):
        load_model(tmp_path / "own" / "checkpoints" / "step-00001.safetensors")
    (tmp_path / "own" / "workload.json").write_text("{")
    with pytest.raises(CorruptRunError, match=r"workload\.json is not valid JSON"):
        load_model(tmp_path / "own" / "checkpoints" / "step-00001.safetensors")
