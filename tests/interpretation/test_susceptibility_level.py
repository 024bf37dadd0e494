"""How high ζ is: against the past by hand, and a fresh network measured on a deep copy."""

import copy
import json
import math
import re
from pathlib import Path

import torch
from hypothesis import given, strategies as st
from torch.nn.functional import cross_entropy

import rote
from rote.interpretation import explain_susceptibility, read_start
from rote.records import Reading

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
def test_the_last_value_is_compared_with_the_lowest_and_the_first(
    rows: list[tuple[float, float | None]], plain: bool
) -> None:
    column = "susceptibility_plain_relative" if plain else "susceptibility_relative"
    said = explain_susceptibility(readings(rows, plain=plain), {column: 0.02, "other": 1.0})
    now = rows[-1][0]
    assert said.startswith(f"one {'reference ' * plain}step on random labels lowers their loss by")
    assert f"{now:.2%}" in said
    assert said.endswith(f"{now / 0.02:.1f}× the untrained network)")
    telling = [zeta for zeta, accuracy in rows if accuracy is None or accuracy >= 0.5]
    found = re.search(r"([\d.]+)× this run's minimum at step (\d+)", said)
    if len(telling) < 2:
        assert found is None
    elif found is None:
        assert "(this run's minimum, " in said
        assert now == min(telling)
    else:
        assert rows[int(found[2]) - 1][0] == min(telling)
        assert found[1] == f"{now / min(telling):.1f}"


def test_unknown_values_are_omitted() -> None:
    assert explain_susceptibility([]) == ""
    assert explain_susceptibility([Reading(1, 1.0, 1.0, 0.0, math.nan, math.nan)]) == ""
    assert "(" not in explain_susceptibility(readings([(0.1, None)], plain=True))
    falling = explain_susceptibility(readings([(0.1, None), (-0.2, None), (0.3, None)], plain=True))
    assert falling.endswith("(-20.00% for this run's minimum at step 2)")
    assert read_start({"start": {"a": 1, "b": "x"}}) == {"a": 1.0}
    assert read_start({"start": 3}) == read_start({}) == {}


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
    assert tracker.perspective.endswith("× the untrained network)")
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
