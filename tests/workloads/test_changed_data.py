"""A run knows the file that it was trained on, and notices that it was edited."""

import json
from pathlib import Path

import numpy as np
import pytest

from rote.errors import DataChangedError, InputError
from rote.workloads import RunSpec, suggest_spec, train


def write_table(path: Path, labels: list[str], shift: float = 0.0) -> Path:
    rows = [f"{n % 7 + shift},{n % 3},{label}" for n, label in enumerate(labels)]
    path.write_text("\n".join(["a,b,label", *rows]) + "\n")
    return path


def short_spec(path: Path) -> RunSpec:
    return RunSpec.from_dict(suggest_spec(path).to_dict() | {"epochs": 1, "signals": []})


def test_edited_data_file_is_noticed_and_described(tmp_path: Path) -> None:
    labels = ["cat", "dog"] * 30
    data = write_table(tmp_path / "my.csv", labels)
    spec, out = short_spec(data), tmp_path / "run"
    train(spec, out)
    recorded = json.loads((out / "workload.json").read_text())["data_file"]
    assert recorded["path"] == str(data.resolve())
    assert train(spec, out).model is None  # finished before
    write_table(data, ["dog", "dog", "dog", *labels[3:]])
    with pytest.raises(DataChangedError, match=r"my\.csv has changed .* 2 of 60 labels differ"):
        train(spec, out)
    write_table(data, labels, shift=0.5)
    with pytest.raises(DataChangedError, match="its inputs differ"):
        train(spec, out)
    write_table(data, labels[:-4])
    with pytest.raises(DataChangedError, match="60 labeled samples then, 56 now") as error:
        train(spec, out)
    assert len(error.value.content) == 16
    write_table(data, labels)
    assert train(spec, out).model is None


def test_a_finished_run_does_not_need_its_data(tmp_path: Path) -> None:
    data = write_table(tmp_path / "my.csv", ["cat", "dog"] * 30)
    spec = short_spec(data)
    readings = train(spec, tmp_path / "run").readings
    data.unlink()
    again = train(spec, tmp_path / "run")
    assert again.model is None
    assert [reading.susceptibility for reading in again.readings] == [
        reading.susceptibility for reading in readings
    ]
    with pytest.raises(InputError, match=r"`data\.path` .*my\.csv"):
        train(spec, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_interrupted_run_does_not_resume_on_other_data(tmp_path: Path) -> None:
    data = write_table(tmp_path / "my.csv", ["cat", "dog"] * 30)
    spec = RunSpec.from_dict(short_spec(data).to_dict() | {"epochs": 2})

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(spec, tmp_path / "run", progress=stop)
    write_table(data, ["dog", "dog"] + ["cat", "dog"] * 29)
    with pytest.raises(DataChangedError, match="1 of 60 labels differ"):
        train(spec, tmp_path / "run")


def test_an_edited_image_is_decoded_again(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    from rote.workloads import read_data

    for name, color in (("cat", 0), ("dog", 255)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        image.new("RGB", (8, 8), (color,) * 3).save(tmp_path / "photos" / name / "1.png")
    first = read_data(tmp_path / "photos").x_train
    assert first.shape == (2, 32, 32, 3)
    image.new("RGB", (9, 9), (255, 0, 0)).save(tmp_path / "photos" / "cat" / "1.png")
    second = read_data(tmp_path / "photos").x_train
    assert not np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
