"""What must hold on ranks that share one model's parameters with FSDP2 (``fully_shard``)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.nn.functional import cross_entropy

import rote
from tests.oracle import oracle_losses
from tests.ranks.sharded import (
    Accumulating,
    Tied,
    prefetching,
    replicas,
    shard,
    unreplicated,
    unsynced,
    without_root,
)
from tests.ranks.training import (
    CLASSES,
    HOLDOUT,
    OPTIMIZERS,
    Training,
    check_without_a_trace,
    cnn,
    gathered,
    images,
    in_turn,
    mlp,
    reading_numbers,
)

LOW = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

WRAPPED: dict[str, dict[str, Any]] = {
    "nested": {"wrap": shard},
    "root_only": {"wrap": partial(shard, layers=False)},
    "no_root": {"wrap": without_root, "build": mlp},
    "kept_whole": {"wrap": partial(shard, reshard_after_forward=False)},
    "dropped": {"wrap": partial(shard, reshard_after_forward=True), "build": mlp},
    "evaluated": {"wrap": shard, "evaluates": "after_step"},
    "evaluated_whole": {
        "wrap": partial(shard, reshard_after_forward=False),
        "evaluates": "after_step",
    },
    # FSDP2 then trains on with whole parameters from before the step; so it must with probes.
    "stale": {"wrap": partial(shard, reshard_after_forward=False), "evaluates": "before_step"},
    "low_precision": {"wrap": partial(shard, mp_policy=LOW), "build": mlp},
    "tied": {"wrap": shard, "build": Tied},
    "replicas": {"wrap": partial(replicas, shape=(2, 1)), "build": mlp},
    "one_replica": {"wrap": partial(replicas, shape=(1, 2)), "build": mlp},
    "prefetching": {"wrap": prefetching, "build": mlp},
    "verified": {"wrap": shard, "policy": rote.ProbePolicy(batch=7, verify=True)},
    "verified_whole": {
        "wrap": shard,
        "policy": rote.ProbePolicy(batch=7, verify=True),
        "evaluates": "after_step",
    },
}

MOMENTS: dict[str, dict[str, Any]] = {
    "half_accumulated": {"moment": "half_accumulated", "accumulating": unsynced},
    "before_backward": {"moment": "before_backward"},
    "before_step": {"moment": "before_step"},
}


def _untouched(folder: Path, kind: type[Training] = Training, **options: Any) -> None:
    check_without_a_trace(partial(kind, **options))


def _full(training: Training) -> tuple[nn.Module, torch.optim.Optimizer]:
    """The same model and optimizer in one piece, on every rank."""
    twin = training.build()
    names = [name for name, _ in twin.named_parameters()]
    whole = {name: _whole(value) for name, value in training.model.state_dict().items()}
    twin.load_state_dict(whole)
    optimizer = OPTIMIZERS[training.optimizer_name](twin.parameters())
    state = training.optimizer.state_dict()
    entries = {
        index: {key: _whole(value) for key, value in values.items()}
        for index, values in state["state"].items()
    }
    assert len(names) == len(state["param_groups"][0]["params"])
    optimizer.load_state_dict({**state, "state": entries})
    return twin, optimizer


def _whole(value: Any) -> Any:
    value = value.full_tensor() if hasattr(value, "full_tensor") else value
    return value.clone() if isinstance(value, Tensor) else value


def _against_one_piece(folder: Path, optimizer_name: str, wrap: Any, build: Any) -> None:
    """Without dropout all ranks are alike, and like one process with the whole model."""
    training = Training(wrap, optimizer_name, build=build).run(probed=True, steps=3)
    batch = training.tracker.batch
    twin, optimizer = _full(training)
    twin.train()
    reading = training.tracker.probe()
    for rule, name in (("live", "drop"), (0.01, "drop_plain")):
        before, after = oracle_losses(twin, optimizer, batch.inputs, batch.labels, rule=rule)
        assert abs(reading.loss_before - before) < 1e-6
        assert abs(getattr(reading, name) - (before - after)) < 1e-6, (reading, before - after)
    assert reading.drop > 1e-4
    twin.eval()
    assert reading.predictions.tolist() == twin(HOLDOUT).argmax(1).tolist()


def _while_accumulating(folder: Path, wrap: Any, accumulating: Any = unsynced) -> None:
    """Gradients that wait to be reduced are no part of a reading, nor is the wish to wait."""
    expected = Training(wrap, "sgd", build=mlp).run(probed=True, steps=0).tracker.probe()
    training = Accumulating(
        wrap, "sgd", build=mlp, moment="half_accumulated", accumulating=accumulating
    )
    reading = training.run(probed=True, steps=1).readings[0]
    assert expected.drop > 1e-3
    assert expected.drop_plain > 1e-4
    assert reading_numbers(reading) == reading_numbers(expected)


def _preserved(folder: Path) -> None:
    """The guard itself keeps a sharded model, whatever is done inside."""
    guarded = Training(shard, "adamw").run(probed=False, steps=2)
    before = guarded.marks()
    with rote.preserved(guarded.model, guarded.optimizer, verify=True):
        for x, y, _ in guarded.loader:
            cross_entropy(guarded.model(x), y).backward()
            guarded.optimizer.step()
        inside = guarded.marks()
        guarded.model(images(3, seed=1))
    assert inside["0.weight"] != before["0.weight"]
    assert guarded.marks() == before


def _no_resistance(folder: Path) -> None:
    training = Training(shard, "sgd", build=mlp)
    with pytest.raises(rote.InputError, match="waits for other ranks"):
        rote.resistance(training.model, training.optimizer, HOLDOUT[0], 1)


def _against_averaged_gradients(folder: Path, optimizer_name: str) -> None:
    """With dropout each rank has masks of its own; gradients and losses are averaged."""
    training = Training(shard, optimizer_name).run(probed=True, steps=3)
    twin, optimizer = _full(training)
    twin.train()
    batch, start = training.tracker.batch, torch.get_rng_state()

    def loss() -> Tensor:
        torch.set_rng_state(start)
        return cross_entropy(twin(batch.inputs), batch.labels)

    optimizer.zero_grad()
    before = loss()
    before.backward()
    for parameter in twin.parameters():
        distributed.all_reduce(parameter.grad)
        parameter.grad.div_(distributed.get_world_size())
    optimizer.step()
    mine = (before - loss()).item()
    torch.set_rng_state(start)
    drops = gathered(mine)
    assert drops[0] != drops[1]
    reading = training.tracker.probe()
    assert abs(reading.drop - sum(drops) / len(drops)) < 1e-6, (reading.drop, drops)


def _after_an_error(folder: Path, moment: str) -> None:
    """A probe that fails on all ranks alike leaves training as it was."""

    def build(*, probed: bool) -> Training:
        training = Training(shard, "sgd", build=mlp, moment="never")
        training.tracker = rote.track(
            training.model, training.optimizer, inputs=HOLDOUT, num_classes=CLASSES, loss_fn=loss_fn
        )
        calls.clear()
        for step, (x, y) in enumerate(training._batches(4)):
            training._step(step, x, y)
            if probed:
                calls.append(step)
                try:
                    training.tracker.probe()
                except ArithmeticError:
                    training.readings.append(step)
        return training

    calls: list[int] = []

    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        if calls and moment == "forward":
            raise ArithmeticError
        loss = cross_entropy(output, labels)
        if calls and moment == "backward":
            loss.register_hook(_fail)
        return loss

    plain = build(probed=False)
    plain.tracker = None
    failed = build(probed=True)
    assert len(failed.readings) == 4
    before, after = plain.marks(), failed.marks()
    assert [name for name in before if before[name] != after.get(name)] == []


def _fail(gradient: Tensor) -> None:
    raise ArithmeticError


def _state_dict_while_whole(folder: Path) -> None:
    """Hooks that FSDP2 adds in its first pass stay: a state dict always holds shards."""
    model: Any = shard(cnn())
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    rote.track(model, optimizer, inputs=HOLDOUT, num_classes=CLASSES)
    with torch.no_grad():
        model(images(4, seed=1))
    assert all(hasattr(value, "full_tensor") for value in _parameters_in(model.state_dict()))


def _parameters_in(state: dict[str, Any]) -> list[Any]:
    return [value for name, value in state.items() if name.endswith((".weight", ".bias"))]


PAIRS: dict[str, Callable[[Path], None]] = {
    f"{name}-{optimizer}": partial(_untouched, optimizer_name=optimizer, **options)
    for name, options in WRAPPED.items()
    for optimizer in OPTIMIZERS
}

CASES: dict[str, Callable[[Path], None]] = {
    **in_turn(PAIRS),
    **{
        f"{moment}-{name}": partial(
            _untouched, kind=Accumulating, optimizer_name="adamw", **WRAPPED[name], **options
        )
        for moment, options in MOMENTS.items()
        for name in ("nested", "kept_whole", "low_precision", "replicas", "verified")
    },
    **{
        f"reading-{name}-{optimizer}": partial(
            _against_one_piece, optimizer_name=optimizer, wrap=wrap, build=build
        )
        for optimizer in OPTIMIZERS
        for name, wrap, build in (
            ("nested", shard, partial(cnn, drops=False)),
            ("replicas", partial(replicas, shape=(2, 1)), mlp),
        )
    },
    **{
        f"half_reduced-{name}": partial(
            _untouched,
            kind=Accumulating,
            optimizer_name="sgd",
            moment="half_accumulated",
            accumulating=unreplicated,
            wrap=partial(replicas, shape=shape),
            build=mlp,
        )
        for name, shape in (("replicas", (2, 1)), ("one_replica", (1, 2)))
    },
    "reading-masks-sgd": partial(_against_averaged_gradients, optimizer_name="sgd"),
    "reading-masks-adamw": partial(_against_averaged_gradients, optimizer_name="adamw"),
    "error-forward": partial(_after_an_error, moment="forward"),
    "error-backward": partial(_after_an_error, moment="backward"),
    "reading-accumulating": partial(_while_accumulating, wrap=shard),
    "reading-accumulating-low": partial(_while_accumulating, wrap=partial(shard, mp_policy=LOW)),
    "reading-half_reduced": partial(
        _while_accumulating, wrap=partial(replicas, shape=(2, 1)), accumulating=unreplicated
    ),
    "state dict": _state_dict_while_whole,
    "preserved": _preserved,
    "no resistance": _no_resistance,
}
