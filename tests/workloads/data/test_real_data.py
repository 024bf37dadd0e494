"""The sets beside the project, where they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.workloads.data import check_file, load
from rote.workloads.data.splits import prepare
from rote.workloads.spec import NamedData, RunSpec

pytestmark = pytest.mark.slow

SHARED = Path(__file__).parents[4] / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no real data at {SHARED}")


@needs_data
def test_human_labels_are_as_wrong_as_published() -> None:
    for labels, rate in (("aggre", 0.0904), ("worse", 0.4068)):
        found = load(NamedData(name="cifar10n", labels=labels), SHARED)  # type: ignore[arg-type]
        assert found.truth is not None
        assert np.mean(found.y_train != found.truth) == pytest.approx(rate, abs=1e-9)


@needs_data
@pytest.mark.parametrize(
    ("data", "train", "classes", "noise"),
    [
        ({"name": "mnist"}, 60000, 10, 0.0),
        ({"name": "npz", "path": "yoruba_news.npz", "labels": "noisy"}, 1340, 7, 0.3328),
        ({"name": "npz", "path": "wrench_youtube.npz", "labels": "majority"}, None, 2, 0.209),
        ({"name": "npz", "path": "banking77.npz"}, 10003, 77, None),
    ],
)
def test_data_sets_are_read(
    data: dict[str, Any], train: int | None, classes: int, noise: float | None
) -> None:
    found = prepare(RunSpec.from_dict({"data": data}), data_dir=SHARED)
    assert found.num_classes == classes
    if train is not None:
        assert len(found.train) + len(found.holdout) == train
    rate = found.description["noise"]["realized_rate"]
    assert rate is noise if noise is None else rate == pytest.approx(noise, abs=5e-4)


@needs_data
def test_a_table_of_labels_alone_cannot_be_trained_on() -> None:
    found = check_file(SHARED / "cifar10n_labels.npz")
    assert "no array `x_train`" in found.problems[0]
