"""Many ranks: the cases run in pairs of processes; here they are started and their reports read."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817  # as everybody

import rote
from rote.probe import (
    average_over_ranks,
    broadcast_from_first,
    count_ranks,
    fail_together,
    get_rank,
    is_first_rank,
)
from rote.store import read_run
from tests.oracle import oracle_losses
from tests.ranks.launch import ROOT, run_cases, torchrun
from tests.ranks.training import CLASSES, HOLDOUT, Training, check_without_a_trace, mlp

pytestmark = pytest.mark.slow


@pytest.mark.ddp
@pytest.mark.parametrize(
    ("modules", "at_least"),
    [  # one start of torch
        ("fsdp_cases,ddp_cases,agreement_cases,refusal_cases", 85),
        pytest.param("other_pairs", 22, marks=pytest.mark.full),
    ],
)
def test_all_cases_hold_on_both_ranks(modules: str, at_least: int, tmp_path: Path) -> None:
    outcomes = run_cases(modules, tmp_path)
    failures = {case: outcome for case, outcome in outcomes.items() if outcome}
    assert not failures, "\n".join(f"{case}\n{outcome}" for case, outcome in failures.items())
    assert len(outcomes) >= 2 * at_least


@pytest.mark.ddp
@pytest.mark.parametrize(
    "example", ["ddp_digits.py", pytest.param("fsdp2_digits.py", marks=pytest.mark.full)]
)
def test_examples_print_a_rising_susceptibility_and_write_once(
    example: str, tmp_path: Path
) -> None:
    printed = torchrun(ROOT / "examples" / example, tmp_path / "run", may_abort=True)
    rows = [line for line in printed.splitlines() if line.startswith("epoch")]
    readings = read_run(tmp_path / "run").readings
    shown = [f"ζ {reading.susceptibility:.4f}" for reading in readings[4::5]]
    assert [row[row.index("ζ") :].split("   ")[0] for row in rows] == shown
    assert readings[0].susceptibility < readings[-1].susceptibility


@pytest.fixture
def lone_rank() -> Iterator[None]:
    """A process group of one."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("communicated")


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("all_gather_object", "broadcast_object_list", "all_reduce", "all_gather"):
        monkeypatch.setattr(distributed, name, _refuse)


@pytest.mark.usefixtures("silence")
def test_without_ranks_nothing_is_communicated() -> None:
    assert (count_ranks(), get_rank(), is_first_rank()) == (1, 0, True)
    assert average_over_ranks([0.1, 0.2]) == [0.1, 0.2]
    assert broadcast_from_first("mine") == "mine"
    with fail_together() as facts:
        facts["`seed`"] = "7"
    with pytest.raises(ZeroDivisionError, match="zero"), fail_together():
        _ = 1 // 0
    model = mlp()
    tracker = rote.track(
        model, torch.optim.SGD(model.parameters(), lr=0.1), inputs=HOLDOUT, num_classes=CLASSES
    )
    assert tracker.probe() is not None


WRAPPERS: dict[str, Any] = {
    "ddp": DDP,
    "static_graph": partial(DDP, static_graph=True),
    "fully_shard": fully_shard,
}


@pytest.mark.usefixtures("lone_rank")
@pytest.mark.parametrize("name", WRAPPERS)
def test_single_rank_is_left_without_a_trace(name: str) -> None:
    check_without_a_trace(partial(Training, WRAPPERS[name], "sgd", build=mlp))


@pytest.mark.usefixtures("lone_rank")
def test_a_single_rank_gives_the_readings_of_a_plain_process() -> None:
    training = Training(DDP, "adamw").run(probed=True, steps=3)
    module, batch = training.model.module, training.tracker.batch
    assert isinstance(module, nn.Module)
    before, after = oracle_losses(module, training.optimizer, batch.inputs, batch.labels)
    reading = training.tracker.probe()
    assert (reading.loss_before, reading.loss_after) == (before, after)
