"""All signals at once: the training does not notice, a run goes on, and selection reads them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rote
from rote.errors import InputError
from rote.store import read_table
from rote.store.run_record import read_description
from rote.tracking import list_signals
from rote.tracking.signals import find_signal
from rote.workloads import RunSpec, train
from tests.workloads.small_runs import numbers, small_spec

pytestmark = pytest.mark.filterwarnings("ignore::rote.errors.SmallHoldoutWarning")

ALL = list_signals()
NETWORKS: dict[str, dict[str, Any]] = {
    "mlp with dropout": {"name": "mlp", "options": {"width": 8, "depth": 1, "dropout": 0.2}},
    "cnn with batch norm": {"name": "cnn", "scale": 0.0625},
}


def test_files_are_named_after_their_signals() -> None:
    assert {name: find_signal(name).name for name in ALL} == {name: name for name in ALL}
    assert {
        "aum",
        "confident_learning",
        "csl",
        "gradient_disparity",
        "gwa",
        "label_error_detector",
        "label_wave",
        "noisy_validation",
        "ratt",
        "selc",
        "weight_norm",
    } <= set(ALL)


def test_options_follow_the_name(tmp_path: Path) -> None:
    spec = small_spec(
        epochs=3, signals=["label_wave(k=1, patience=1)", "noisy_validation(sizes=[4, 8])"]
    )
    assert RunSpec.from_dict(spec.to_dict()).identity == spec.identity
    metrics = [reading.metrics for reading in train(spec, tmp_path / "run").readings]
    assert ["label_wave" in found for found in metrics] == [False, True, True]
    assert {"noisy_validation_4", "noisy_validation_8"} <= set(metrics[-1])
    assert "noisy_validation_10" not in metrics[-1]


@pytest.mark.parametrize(
    ("signal", "said"),
    [
        ("label_wave(patienc=3)", "of k, patience, got 'patienc'. Did you mean 'patience'"),
        ("label_wave(k=0)", "`k` to be an integer of at least 1, got 0"),
        ("noisy_validation(sizes=3)", "`noisy_validation` does not take the options"),
        ("label_wave(k=open('x'))", r"got \"label_wave\(k=open"),
        ("label_wave(3)", "`signals` to be of aum"),
        ("(" * 5000, "`signals` to be of aum"),
        ("label_wawe(k=3)", "Did you mean 'label_wave'"),
    ],
)
def test_unknown_options_are_named(signal: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        find_signal(signal)


@pytest.mark.parametrize("network", NETWORKS)
def test_training_with_all_signals_is_the_training_without(tmp_path: Path, network: str) -> None:
    settings: dict[str, Any] = {"architecture": NETWORKS[network], "epochs": 5}
    bare = train(small_spec(**settings))
    run = train(small_spec(**settings, signals=ALL), tmp_path / "run")
    assert bare.model is not None
    assert run.model is not None
    for name, tensor in bare.model.state_dict().items():
        assert torch.equal(tensor, run.model.state_dict()[name])
    columns = read_description(tmp_path / "run")["columns"]
    own = {name for name in columns if name not in bare.readings[-1].metrics}
    without = [
        {**entry, "metrics": {k: v for k, v in entry["metrics"].items() if k not in own}}
        for entry in numbers(run.readings)
    ]
    assert without == numbers(bare.readings)
    assert {"gwa", "selc", "aum", "ratt", "csl", "gradient_disparity"} <= set(
        run.readings[-1].metrics
    )
    for name in ("label_wave", "gwa", "selc", "weight_norm", "ratt", "detector_96"):
        rule, best = columns[name]["rule"], max if columns[name]["better"] == "higher" else min
        values = {r.step: r.metrics[name] for r in run.readings if name in r.metrics}
        chosen = rote.select(tmp_path / "run", rule=rule)
        assert values[chosen.pick.step] == best(values.values())


def test_an_interrupted_run_ends_with_the_same_numbers(tmp_path: Path) -> None:
    spec = small_spec(epochs=4, signals=ALL)
    whole = train(spec, tmp_path / "whole")

    def cut(reading: rote.Reading) -> None:
        if reading.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(spec, tmp_path / "cut", progress=cut)
    resumed = train(spec, tmp_path / "cut")
    assert numbers(resumed.readings) == numbers(whole.readings)
    for name in ("aum", "aum_rival", "prediction_changes", "confident_learning", "csl"):
        one, other = (read_table(tmp_path / run).read_rows(run, name) for run in ("whole", "cut"))
        assert one is not None
        assert other is not None
        np.testing.assert_array_equal(one, other)


def test_selection_reads_them_without_torch(tmp_path: Path) -> None:
    train(small_spec(epochs=4, signals=ALL), tmp_path / "run")
    code = (
        "import sys, json; from rote.selection import select; "
        f"chosen = [select({str(tmp_path / 'run')!r}, rule=rule).pick.step for rule in "
        "('max:gwa', 'min:label_wave', 'max:selc', 'max:noisy_validation_10')]; "
        "print(json.dumps([chosen, 'torch' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    steps, has_torch = json.loads(done.stdout)
    assert not has_torch
    assert all(1 <= step <= 4 for step in steps)


def test_batches_that_mixup_mixed_are_not_observed(tmp_path: Path) -> None:
    run = train(small_spec(objective="mixup", signals=ALL), tmp_path / "run")
    metrics = run.readings[-1].metrics
    assert not {"gwa", "selc", "aum", "confident_learning"} & set(metrics)
    assert "noisy_validation_10" in metrics
    areas = read_table(tmp_path / "run").read_rows("run", "aum")
    assert areas is not None
    assert np.isnan(areas).all()
