"""How high ζ is: against the past by hand, and a fresh network measured on a deep copy."""

import copy
import json
import math
import re
from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

import rote
from rote.records import Reading
from rote.store import in_perspective, start_of

ROWS = st.lists(
    st.tuples(st.floats(1e-4, 1), st.sampled_from([None, 0.2, 0.5, 0.9])), min_size=1, max_size=8
)


def readings(rows: list[tuple[float, float | None]], *, plain: bool) -> list[Reading]:
    return [
        Reading(
            step, 2.0, 2.0, 0.0, 9.0, 9.0 if plain else zeta,
            susceptibility_plain_relative=zeta if plain else None,
            metrics={} if accuracy is None else {"train_accuracy": accuracy},
        )
        for step, (zeta, accuracy) in enumerate(rows, start=1)
    ]  # fmt: skip


@given(ROWS, st.booleans())
def test_the_last_is_held_against_the_lowest_and_the_start(
    rows: list[tuple[float, float | None]], plain: bool
) -> None:
    column = "susceptibility_plain_relative" if plain else "susceptibility_relative"
    said = in_perspective(readings(rows, plain=plain), {column: 0.02, "other": 1.0})
    now = rows[-1][0]
    assert said.startswith(f"a {'plain ' * plain}step takes on average {now:.2%} off the loss on")
    assert said.endswith(f"{now / 0.02:.1f} × a fresh network")
    telling = [zeta for zeta, accuracy in rows if accuracy is None or accuracy >= 0.5]
    found = re.search(r"([\d.]+) × its lowest \(step (\d+)\)", said)
    if len(telling) < 2:
        assert found is None
    elif found is None:
        assert "its lowest so far" in said
        assert now == min(telling)
    else:
        assert rows[int(found[2]) - 1][0] == min(telling)
        assert found[1] == f"{now / min(telling):.1f}"


def test_what_is_not_known_is_not_said() -> None:
    assert in_perspective([]) == ""
    assert in_perspective([Reading(1, 1.0, 1.0, 0.0, math.nan, math.nan)]) == ""
    assert ":" not in in_perspective(readings([(0.1, None)], plain=True))
    falling = in_perspective(readings([(0.1, None), (-0.2, None), (0.3, None)], plain=True))
    assert falling.endswith(": -20.00% at its lowest (step 2)")
    assert start_of({"start": {"a": 1, "b": "x"}}) == {"a": 1.0}
    assert start_of({"start": 3}) == start_of({}) == {}


def test_a_fresh_network_is_measured_before_it_is_trained(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    twin = copy.deepcopy(model)
    tracker = rote.track(
        model, optimizer, inputs=torch.randn(16, 6), num_classes=3, save_to=tmp_path / "a"
    )
    x, y = tracker.batch.inputs, tracker.batch.labels
    loss = cross_entropy(twin(x), y)
    for parameter, gradient in zip(
        twin.parameters(), torch.autograd.grad(loss, list(twin.parameters())), strict=True
    ):
        parameter.data -= 0.3 * gradient
    drop = (loss - cross_entropy(twin(x), y)).item()
    assert math.isclose(tracker.start["susceptibility"], drop, rel_tol=1e-5)
    relative = tracker.start["susceptibility_relative"]
    assert math.isclose(relative, drop / loss.item(), rel_tol=1e-5)
    assert json.loads((tmp_path / "a" / "run.json").read_text())["start"] == tracker.start
    assert tracker.perspective == ""
    optimizer.step(lambda: cross_entropy(model(x), y))
    tracker.probe()
    assert tracker.perspective.endswith("× a fresh network")
    started = tracker.start
    state = tracker.state_dict()
    tracker.close()
    again = rote.track(
        model, optimizer, inputs=x, num_classes=3, save_to=tmp_path / "a", resume=True
    )
    assert again.start == started  # not what the trained network shows
    again.close()
    other = rote.track(model, optimizer, inputs=x, num_classes=3)
    other.load_state_dict(state)
    assert other.start == {}
