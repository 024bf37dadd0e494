"""Several optimizers stepped together: one reading, equal to that of deep copies."""

import copy
import json
import threading
from queue import SimpleQueue
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import ConcurrentProbeError, InputError
from rote.probe.compatibility import JointOptimizer
from tests.cases import CLASSES, images

pytestmark = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="needs torch 2.9")

X, Y = images(12, seed=5), torch.arange(12) % CLASSES


def network() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES)
    )


def optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon takes matrices only, so that it always comes with another."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return [torch.optim.Muon(matrices, lr=0.05), torch.optim.AdamW(others, lr=0.1)]


def stepped(model: nn.Module, members: list[torch.optim.Optimizer]) -> float:
    model.zero_grad()
    loss = cross_entropy(model(X), Y)
    loss.backward()
    for member in members:
        member.step()
    return loss.item()


def oracle(model: nn.Module, members: list[torch.optim.Optimizer]) -> tuple[float, float]:
    """Losses around one step of deep copies of everything."""
    twin, twins = copy.deepcopy((model, members))
    before = stepped(twin, twins)
    with torch.no_grad():
        return before, cross_entropy(twin(X), Y).item()


def trained(*, probed: bool) -> tuple[list[Any], list[Any]]:
    model = network()
    members = optimizers(model)
    tracker = None
    if probed:
        tracker = rote.track(model, members, inputs=X, num_classes=CLASSES, labels=Y)
    for _ in range(4):
        stepped(model, members)
        if tracker is not None:
            expected = oracle(model, members)
            reading = tracker.probe()
            assert reading is not None
            assert (reading.loss_before, reading.loss_after) == expected
    states: list[Any] = [
        [value.tolist() if isinstance(value, Tensor) else value for value in state.values()]
        for member in members
        for state in member.state.values()
    ]
    return [p.tolist() for p in model.parameters()], states


def test_every_reading_is_that_of_deep_copies_and_training_is_the_same() -> None:
    assert trained(probed=True) == trained(probed=False)


@pytest.mark.parametrize("rule", ["live", "fresh"])
def test_list_of_one_optimizer_equals_that_optimizer(rule: Any) -> None:
    found = []
    for is_list in (False, True):
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        stepped(model, [optimizer])
        tracker = rote.track(
            model,
            [optimizer] if is_list else optimizer,
            inputs=X,
            num_classes=CLASSES,
            policy=rote.ProbePolicy(optimizer=rule),
        )
        reading = tracker.probe()
        assert reading is not None
        found.append(reading.drop)
    assert found[0] == found[1] != 0


def test_fresh_steps_are_those_of_new_optimizers() -> None:
    model = network()
    members = optimizers(model)
    for _ in range(3):
        stepped(model, members)
    twin = copy.deepcopy(model)
    expected = oracle(twin, optimizers(twin))
    policy = rote.ProbePolicy(optimizer="fresh", verify=True)
    tracker = rote.track(model, members, inputs=X, num_classes=CLASSES, labels=Y, policy=policy)
    reading = tracker.probe()
    assert reading is not None
    assert (reading.loss_before, reading.loss_after) == expected


def test_one_sample_is_memorized_by_all_of_them() -> None:
    model = network()
    members = optimizers(model)
    weights = copy.deepcopy(model.state_dict())
    found = rote.resistance(model, members, X[0], 3, verify=True)
    assert found.steps is not None
    twin, twins = copy.deepcopy((model, members))
    twin.eval()
    steps = 0
    while int(twin(X[:1]).argmax()) != 3:
        twin.zero_grad()
        cross_entropy(twin(X[:1]), torch.tensor([3])).backward()
        for member in twins:
            member.step()
        steps += 1
    assert found.steps == steps
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


def test_no_thread_may_step_one_of_them_meanwhile() -> None:
    model = network()
    members = optimizers(model)
    caught: SimpleQueue[BaseException] = SimpleQueue()  # a list would be put back

    def other_thread() -> None:
        try:
            members[1].step()
        except ConcurrentProbeError as error:
            caught.put(error)

    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        return cross_entropy(output, labels)

    policy = rote.ProbePolicy(plain=None)
    rote.probe.Probe(
        model, JointOptimizer(members), CLASSES, loss_fn=loss_fn, policy=policy
    ).measure(X, Y)
    assert caught.qsize() == 2


def test_a_copy_steps_the_copied_model() -> None:
    model = network()
    joint = JointOptimizer(optimizers(model))
    twin, copied = copy.deepcopy((model, joint))
    held = {id(p) for group in copied.param_groups for p in group["params"]}
    assert held == {id(p) for p in twin.parameters()}
    before = [p.clone() for p in twin.parameters()]
    cross_entropy(twin(X), Y).backward()
    copied.step()
    assert not any(map(torch.equal, before, twin.parameters()))
    copied.zero_grad()
    assert all(p.grad is None for p in twin.parameters())


def test_the_run_says_which_optimizers(tmp_path: Any) -> None:
    model = network()
    rote.track(
        model, optimizers(model), inputs=X, num_classes=CLASSES, save_to=tmp_path / "run"
    ).close()
    described = json.loads((tmp_path / "run" / "run.json").read_text())["optimizer"]
    assert described["settings"]["AdamW.lr"] == 0.1
    assert described["settings"]["Muon.lr"] == 0.05


def test_invalid_lists_of_optimizers_are_refused() -> None:
    model = network()
    one = torch.optim.SGD(model.parameters(), lr=0.1)
    for several, message in (
        ([one, one], "different optimizers, each once, got 2"),
        ([], "different optimizers, each once, got 0"),
        ([one, model], "or a list of those that are stepped together, got Sequential"),
    ):
        with pytest.raises(InputError, match=message):
            rote.track(model, several, inputs=X, num_classes=CLASSES)  # type: ignore[arg-type]
