"""The preset `paper`: the settings of the appendix, each of which can be built and run."""

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from typer.testing import CliRunner

from rote.cli.main import app
from rote.studies import read_pools, studies
from rote.workloads import RunSpec, build_architecture, list_datasets

pytestmark = pytest.mark.slow

RUNS = {
    "cifar10": 29 * 6 * 4 * 2,  # networks, learning rates, schedules, momenta
    "cifar10-low": 29,
    "cifar10-asymmetric": 29,
    "cifar10-20": 4,
    "cifar10-30": 4,
    "cifar10-40": 4,
    "cifar10-objectives": 4 * 5,
    "cifar10-networks": 14 * 2,  # right and noisy labels
    "cifar100": 27,
    "cifar100-low": 27,
    "cifar100-objectives": 4 * 5,
    "cifar100-probe": 3,  # networks; sizes and seeds of S̃ are signals
    "svhn": 42 * 3,  # networks; SGD with two schedules, Adam
    "mnist": 8 * 4 * 2,  # networks, scales, schedules
    "fashion-mnist": 8 * 4 * 2,
    "tiny-imagenet": 6 * 4 * 3,
    "clothing1m": 5 * 3 * 2,
    "animal10n": 5 * 3 * 2,
    "cifar10n": 11 * 2,
}
EPOCHS = {"clothing1m": 20, "animal10n": 50}


def specs() -> Iterator[tuple[str, RunSpec]]:
    for pool in read_pools("paper"):
        yield from ((pool.name.removesuffix("-0"), spec) for spec in pool.specs.values())


def test_every_run_of_the_appendix_is_declared_once() -> None:
    assert Counter(name for name, _ in specs()) == RUNS


def test_settings_are_those_of_the_appendix() -> None:
    for name, spec in specs():
        assert (spec.epochs, spec.batch) == (EPOCHS.get(name, 200), 128)
        decay = 0.0 if spec.optimizer.name == "adam" else 5e-4
        assert spec.optimizer.weight_decay == decay
        if spec.schedule.name == "cosine" and name != "cifar10":
            assert spec.schedule.t_max in (None, spec.epochs)
    found = {name: [spec for n, spec in specs() if n == name] for name in RUNS}
    cifar10 = found["cifar10"]
    assert {s.optimizer.lr for s in cifar10} == {0.001, 0.005, 0.01, 0.05, 0.1, 0.5}
    assert {s.optimizer.momentum for s in cifar10} == {0.9, 0.0}
    assert {getattr(s.schedule, "t_max", None) for s in cifar10} == {200, 100, 50, None}
    assert {s.optimizer.name for s in found["svhn"]} == {"sgd", "adam"}
    assert {s.noise.rate for s in found["tiny-imagenet"]} == {0.1}
    assert {s.noise.model for s in found["cifar10-asymmetric"]} == {"asymmetric"}
    for name in ("clothing1m", "animal10n", "cifar10n"):
        assert {s.noise.model for s in found[name]} == {"none"}
    assert {s.optimizer.lr for s in found["animal10n"]} == {0.001, 0.005, 0.01}
    assert {s.schedule.t_max for s in found["animal10n"] if s.schedule.name == "cosine"} == {50}


def test_every_network_is_built_for_its_data_and_takes_it() -> None:
    sets = {listed.name: listed for listed in list_datasets()}
    assert len({spec.data.name for _, spec in specs()}) == 9
    # The number of classes is that of the last layer alone: any of the sets of a shape will do.
    wanted = {
        (spec.architecture, sets[spec.data.name].shape): sets[spec.data.name].classes
        for _, spec in specs()
    }
    tried = set()
    with torch.device("meta"), torch.no_grad():
        for (architecture, shape), classes in wanted.items():
            height, _, channels = shape
            model = build_architecture(
                architecture.name,
                num_classes=classes,
                in_channels=channels,
                image_size=height,
                scale=architecture.scale,
            )
            if (architecture.name, shape) not in tried:
                tried.add((architecture.name, shape))
                images = torch.empty(2, channels, height, height)
                assert model.eval()(images).shape == (2, classes)
    assert len(wanted) > 80


def test_every_study_has_pools_and_runs_are_counted_without_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ROTE_DATA", raising=False)
    assert all(study.has("paper") for study in studies().values() if study.paper)
    said = CliRunner().invoke(app, ["study", "run", "--all", "--preset", "paper", "--dry-run"])
    assert said.exit_code == 0, said.output
    assert f"{sum(RUNS.values())} runs: {sum(RUNS.values())} new" in said.stdout.splitlines()[-1]
