"""What studies try on networks, against plain loops, and what they make of it."""

import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch
from torch import nn

from rote.probe import measure_calibration_error
from rote.store import RunTable, read_table
from rote.studies import (
    Pool,
    Records,
    find_study,
    prepare_study,
    read_pools,
    record_measured,
    write_page,
)
from rote.studies.chart import as_svg
from rote.studies.figures import calibration, one_sample
from rote.studies.figures.calibration import HALF, PREDICTED, SCALED, equalize_calibration
from rote.studies.figures.one_sample import KINDS, RIGHT, WRONG, WRONG_SEEN
from rote.studies.networks import (
    CURVE,
    MOST_STEPS,
    count_steps_on_one,
    draw_wrong_labels,
    group_pairs,
    load_networks,
    load_pairs,
)
from rote.sweeps import SearchSpace, get_run_path
from rote.workloads import train

pytestmark = pytest.mark.slow

LR = 1e-3
STUDIES = ("one-sample", "calibration", "attack")


def naive_steps(
    weight: np.ndarray, bias: np.ndarray, x: np.ndarray, label: int, temperature: float = 1.0
) -> int:
    """Gradient descent on the cross entropy of a linear model, written out."""
    weight, bias = weight.copy(), bias.copy()
    for step in range(MOST_STEPS):
        logits = weight @ x + bias
        if int(logits.argmax()) == label:
            return step
        odds = np.exp((logits - logits.max()) / temperature)
        slope = (odds / odds.sum() - np.eye(len(bias))[label]) / temperature
        weight -= LR * np.outer(slope, x)
        bias -= LR * slope
    return MOST_STEPS


@pytest.mark.parametrize("seed", range(3))
def test_steps_on_one_sample_are_those_of_gradient_descent(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(6, 4).double().eval()
    x = 3 * torch.randn(6, generator=generator, dtype=torch.double)
    with torch.no_grad():
        model.weight.copy_(torch.randn(4, 6, generator=generator, dtype=torch.double) / 9)
    weight, bias = model.weight.detach().numpy().copy(), model.bias.detach().numpy().copy()
    found = [count_steps_on_one(model, x, label, lr=LR) for label in range(4)]
    assert found == [naive_steps(weight, bias, x.numpy(), label) for label in range(4)]
    assert max(found) > 1
    scaled = calibration._count_steps(model, SCALED, 2.0, x, int(np.argmax(found)), lr=LR)
    assert scaled == naive_steps(weight, bias, x.numpy(), int(np.argmax(found)), 2.0)
    half = calibration._count_steps(model, HALF, 2.0, x, int(np.argmax(found)), lr=LR)
    assert half >= max(found)
    assert np.array_equal(model.weight.detach().numpy(), weight)


def test_wrong_labels_are_every_other_class() -> None:
    classes = np.repeat(np.arange(5), 200)
    drawn = draw_wrong_labels(classes, 5, np.random.default_rng(0))
    assert not np.any(drawn == classes)
    assert {int(label) for label in drawn[classes == 2]} == {0, 1, 3, 4}


def test_calibration_errors_are_made_equal() -> None:
    rng = np.random.default_rng(0)
    classes = torch.as_tensor(rng.integers(10, size=500))
    truth = torch.eye(10)[classes]
    noisy = torch.as_tensor(rng.normal(size=(500, 10)), dtype=torch.float) + truth
    for clean in (4 * noisy + 8 * truth, 9 * noisy + 30 * truth):
        by = equalize_calibration(clean, 3 * noisy, classes)
        errors = [
            measure_calibration_error(logits / t, classes)
            for logits, t in zip((clean, 3 * noisy), by, strict=True)
        ]
        assert errors[0] == pytest.approx(errors[1], abs=0.02)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pool, RunTable, Path]:
    """A network on right labels and one on noisy labels."""
    store = tmp_path_factory.mktemp("networks")
    base = {
        "epochs": 12,
        "data": {"name": "digits", "train_size": 400},
        "architecture": {"name": "mlp", "options": {"width": 32}},
        "checkpoints": {"keep": "last"},
    }
    noisy = {"noise": {"model": "symmetric-inclusive", "rate": 0.5}}
    lists = {"labels": {"noisy": noisy, "right": {}}}
    pool = Pool("made-0", "networks", False, SearchSpace.from_dict({"base": base, "lists": lists}))
    for spec in pool.space:
        train(spec, get_run_path(store, spec))
    return pool, read_table(store), store


def test_networks_are_loaded_as_they_were_trained(
    trained: tuple[Pool, RunTable, Path],
) -> None:
    pool, table, _ = trained
    found = list(load_networks(pool, table, None))
    assert [(network.run, network.is_noisy) for network in found] == [
        ("noisy", True),
        ("right", False),
    ]
    for network in found:
        images, classes = network.load_test_set()
        hits = network.model(images).argmax(1) == classes
        assert network.numbers["test_accuracy"] == pytest.approx(
            hits.float().mean().item(), abs=1e-5
        )
    ((clean, noisy),) = load_pairs(pool, table, None)
    assert (clean.run, noisy.run) == ("right", "noisy")


def test_networks_are_examined_once_and_recorded(
    trained: tuple[Pool, RunTable, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, table, _ = trained
    monkeypatch.setattr(one_sample, "SAMPLES", 3)
    monkeypatch.setattr(Pool, "record", property(lambda _: tmp_path / "made-0.tar.xz"))
    monkeypatch.setattr("rote.studies.study.read_pools", lambda _: (pool,))
    for name in STUDIES:
        study = find_study(name)
        found = prepare_study(study, {pool: table}, tmp_path, None)
        assert prepare_study(study, {}, tmp_path, None) == []
        file = next(tmp_path.glob(f"made-0-{name}-*.json"))
        assert json.loads(file.read_text()) == found[0][1]
        file.write_text("{}")
        assert prepare_study(study, {pool: table}, tmp_path, None)[0][1] == {}
        record_measured(study, found)
        assert Records(tmp_path).read(study)[0] == ("paper", found)
        record = study.measure(found)
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        told = write_page(study, record, "tiny")
        assert "made-0" in told
        assert "None" not in told
        assert study.draw is not None
        assert as_svg(study.draw(record)).startswith(b"<svg")


def made_pair(rng: np.random.Generator, ways: tuple[str, ...]) -> dict[str, object]:
    numbers = {"test_accuracy": rng.random(), "noisy_accuracy": rng.random()}
    steps = {way: rng.integers(0, 50, size=(2, 5)).tolist() for way in ways}
    more = {"temperatures": [1.0, 2.0], "errors": [[0.1, 0.2], [0.1, 0.1]]}
    return {"clean": numbers, "noisy": numbers, "steps": steps, **more}


def test_steps_are_averaged_over_samples_and_then_over_networks() -> None:
    rng = np.random.default_rng(0)
    made = [made_pair(rng, KINDS) for _ in range(6)]
    found = one_sample._group(made)["kinds"]
    for kind in KINDS:
        sides = [[pair["steps"][kind][side] for pair in made] for side in (0, 1)]  # type: ignore[index]
        means = [fmean(fmean(steps) for steps in side) for side in sides]
        assert found[kind]["clean"][0] == pytest.approx(means[0])
        assert found[kind]["noisy"][0] == pytest.approx(means[1])
        assert found[kind]["difference"][0] == pytest.approx(means[0] - means[1])
        assert found[kind]["clean"][1] < means[0] < found[kind]["clean"][2]
        both = [list(zip(*pair["steps"][kind], strict=True)) for pair in made]  # type: ignore[index]
        later = fmean(clean > noisy for pair in both for clean, noisy in pair)
        assert found[kind]["clean_later"] == pytest.approx(later)


def test_curves_give_the_share_of_samples_that_are_memorized_so_far() -> None:
    steps = {kind: [[0, 3, 9], [1, 1, MOST_STEPS]] for kind in KINDS}
    made = [{**made_pair(np.random.default_rng(0), KINDS), "steps": steps}]
    curves = one_sample._group(made)["kinds"][WRONG_SEEN]["curves"]
    after = dict(zip(CURVE, zip(curves["clean"], curves["noisy"], strict=True), strict=True))
    thirds = {0: (1, 0), 1: (1, 2), 2: (1, 2), 4: (2, 2), 8: (2, 2), 16: (3, 2), 512: (3, 2)}
    for count, (clean, noisy) in thirds.items():
        assert after[count] == pytest.approx((clean / 3, noisy / 3))


@pytest.mark.parametrize(
    ("resisting", "words"),
    [
        (8, "As in the paper, networks trained on right labels resist a wrong label longer;"),
        (4, "longer, but only in the group “wrong labels memorized”; they do not"),
        (0, "Unlike in the paper"),
    ],
)
def test_the_order_of_the_paper_needs_an_interval_without_0(resisting: int, words: str) -> None:
    made = [made_pair(np.random.default_rng(0), KINDS) for _ in range(8)]
    for number, pair in enumerate(made):
        resists = number < resisting
        longer = [[3] * 5, [0] * 5] if resists else [[0] * 5, [3 + number] * 5]
        pair["noisy"] = {"test_accuracy": 0.5, "noisy_accuracy": 0.95 if resists else 0.3}
        pair["steps"] = {WRONG_SEEN: longer, WRONG: longer, RIGHT: longer[::-1]}
    groups = {name: one_sample._group(pairs) for name, pairs in group_pairs(made).items()}
    assert [group["pairs"] for group in groups.values()] == (
        [8] if resisting in (0, 8) else [8, 4, 4]
    )
    assert words in one_sample._write_verdict(groups)


def test_calibrated_steps_are_averaged_over_pairs() -> None:
    rng = np.random.default_rng(1)
    made = [made_pair(rng, (PREDICTED, SCALED, HALF)) for _ in range(4)]
    found = calibration._group(made)
    assert found["errors"] == [[0.1, 0.2], [0.1, 0.1]]
    assert found["ways"][HALF]["noisy"][0] == pytest.approx(
        fmean(fmean(pair["steps"][HALF][1]) for pair in made)  # type: ignore[index]
    )


def test_attacks_are_correlated_over_networks() -> None:
    rng = np.random.default_rng(0)
    names = ("susceptibility", "noisy_accuracy", "success", "tried")
    more = {"attacked": 5, "test_accuracy": 0.5}
    made = [{name: rng.random() for name in names} | more for _ in range(12)]
    wild = dict.fromkeys(names, 9.0)
    unhit, guessing = more | {"attacked": 0}, more | {"test_accuracy": 0.1}
    networks = {"networks": [*made, wild | unhit, wild | guessing]}
    (pool,) = [pool for pool in read_pools("medium") if pool.group == "networks"]
    found = find_study("attack").measure([(pool, networks)])["pools"][pool.name]
    x, y = ([network[name] for network in made] for name in ("susceptibility", "tried"))
    value, low, high = found["pearson"]["tried"]["ζ"]
    assert value == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert low < value < high
    assert found["success"][1] == pytest.approx(fmean(n["success"] for n in made))


def test_networks_near_chance_alone_give_no_verdict() -> None:
    (pool,) = [pool for pool in read_pools("medium") if pool.group == "networks"]
    guessing = {"test_accuracy": 0.1, "noisy_accuracy": 0.1, "susceptibility": 0.1}
    pair = made_pair(np.random.default_rng(0), KINDS) | {"clean": guessing, "noisy": guessing}
    attacked = guessing | {"attacked": 5, "success": 1.0, "tried": 1.0}
    for name in ("one-sample", "calibration", "attack"):
        study = find_study(name)
        record = study.measure([(pool, {"pairs": [pair], "networks": [attacked]})])
        assert record == {"pools": {}}
        assert "clearly better than chance" in study.finding(record)
        assert study.brief is not None
        assert study.brief(record).verdict is None


def test_a_right_label_is_a_claim_of_its_own() -> None:
    """The paper's Figure 14: the order reverses for right labels."""
    made = [made_pair(np.random.default_rng(0), KINDS) for _ in range(4)]
    for number, pair in enumerate(made):
        pair["noisy"] = {"test_accuracy": 0.5, "noisy_accuracy": 0.95}
        more, fewer = [9 + number] * 5, [1] * 5
        pair["steps"] = {WRONG_SEEN: [fewer, more], WRONG: [fewer, more], RIGHT: [fewer, more]}
    record = {"pools": {"a": {"all": one_sample._group(made)}}}
    study = find_study("one-sample")
    wrong, right = study.get_brief("fig:motiv"), study.get_brief("fig:motivclean")
    assert wrong is not None
    assert right is not None
    assert (wrong(record).verdict, right(record).verdict) == ("not confirmed", "confirmed")
