import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import (
    DivergingReadingWarning,
    DominatedMeanWarning,
    InputError,
    NonFiniteReadingWarning,
    RoteWarning,
    StateError,
)
from rote.store import read_whole_readings
from tests.cases import CLASSES, MODELS, build_case, images

HOLDOUT = images(20, seed=9)
GIVEN = torch.arange(20) % CLASSES


class Run:
    """A training run that can be stopped after any epoch and taken up again."""

    def __init__(self, policy: rote.ProbePolicy | None = None, **options: Any) -> None:
        self.model, self.optimizer = build_case("dropout", "sgd_momentum")
        policy = policy or rote.ProbePolicy(batch=8)
        given = GIVEN if policy.record_predictions else None
        self.tracker = rote.track(
            self.model,
            self.optimizer,
            inputs=options.pop("inputs", HOLDOUT),
            num_classes=CLASSES,
            given_labels=options.pop("given_labels", given),
            policy=policy,
            **options,
        )

    def epochs(self, first: int, last: int) -> None:
        for epoch in range(first, last + 1):
            torch.manual_seed(epoch)
            self.optimizer.zero_grad()
            cross_entropy(self.model(images(20, seed=3)), GIVEN).backward()
            self.optimizer.step()
            self.tracker.probe(train_accuracy=epoch / 100)

    def checkpoint(self) -> io.BytesIO:
        file = io.BytesIO()
        parts = {"model": self.model, "optimizer": self.optimizer, "tracker": self.tracker}
        torch.save({name: part.state_dict() for name, part in parts.items()}, file)
        file.seek(0)
        return file

    def load(self, file: io.BytesIO) -> None:
        state = torch.load(file, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.tracker.load_state_dict(state["tracker"])


def without_seconds(readings: list[rote.Reading]) -> list[dict[str, Any]]:
    values = [reading.to_dict() | {"predictions": reading.predictions} for reading in readings]
    for value in values:
        del value["seconds"]
        if value["predictions"] is not None:
            value["predictions"] = value["predictions"].tolist()
    return values


POLICIES = {
    "default": rote.ProbePolicy(batch=8),
    "resampled": rote.ProbePolicy(batch=8, resample=True),
    "every_third": rote.ProbePolicy(batch=8, every=3),
    "scheduled": rote.ProbePolicy(batch=8, every=lambda step: step in (1, 2, 4, 8)),
    "no_plain": rote.ProbePolicy(batch=8, plain=None),
    "no_predictions": rote.ProbePolicy(batch=8, record_predictions=False),
    "fresh_eval": rote.ProbePolicy(batch=8, optimizer="fresh", mode="eval"),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_resumed_run_gives_the_same_readings(policy: rote.ProbePolicy) -> None:
    whole = Run(policy)
    whole.epochs(1, 8)
    for cut in (0, 1, 4, 7):
        first, second = Run(policy), Run(policy)
        first.epochs(1, cut)
        second.load(first.checkpoint())
        second.epochs(cut + 1, 8)
        readings = without_seconds(second.tracker.readings)
        assert readings == without_seconds(whole.tracker.readings), cut
        assert second.tracker.susceptibility == whole.tracker.susceptibility, cut


def test_zeta_is_the_mean_of_the_drops() -> None:
    run = Run()
    assert run.tracker.susceptibility == 0.0
    run.epochs(1, 6)
    readings = run.tracker.readings
    for t in range(1, 7):
        seen = readings[:t]
        expected = {
            "susceptibility": [r.loss_before - r.loss_after for r in seen],
            "susceptibility_relative": [1 - r.loss_after / r.loss_before for r in seen],
            "susceptibility_plain": [r.loss_before - (r.loss_after_plain or 0) for r in seen],
            "susceptibility_plain_relative": [
                1 - (r.loss_after_plain or 0) / r.loss_before for r in seen
            ],
        }
        for column, drops in expected.items():
            assert getattr(readings[t - 1], column) == pytest.approx(sum(drops) / t, rel=1e-9)
    assert run.tracker.susceptibility == readings[-1].susceptibility
    assert all(reading.seconds > 0 for reading in readings)
    assert [reading.step for reading in readings] == [1, 2, 3, 4, 5, 6]


def test_every_probes_at_multiples_and_returns_none_between() -> None:
    run = Run(POLICIES["every_third"])
    found = [run.tracker.probe() for _ in range(7)]
    assert [reading and reading.step for reading in found] == [None, None, 3, None, None, 6, None]


def test_the_plain_step_can_be_turned_off() -> None:
    reading = Run(POLICIES["no_plain"]).tracker.probe()
    assert reading is not None
    assert (reading.drop_plain, reading.susceptibility_plain) == (None, None)
    assert reading.susceptibility_plain_relative is None


def test_a_plain_main_step_is_measured_once() -> None:
    same = rote.ProbePolicy(batch=8, optimizer=rote.PlainStep(0.01))
    assert same.rules == (rote.PlainStep(0.01),)
    reading = Run(same).tracker.probe()
    assert reading is not None
    assert reading.drop == reading.drop_plain


def test_predictions_and_noisy_validation_are_recorded() -> None:
    run = Run()
    run.epochs(1, 3)
    run.model.eval()
    predicted = run.model(HOLDOUT).argmax(1)
    reading = run.tracker.readings[-1]
    assert np.array_equal(reading.predictions, predicted.numpy())  # type: ignore[arg-type]
    expected = (predicted == GIVEN).float().mean().item()
    assert reading.validation_accuracy == pytest.approx(expected)
    bare = Run(POLICIES["no_predictions"]).tracker.probe()
    assert bare is not None
    assert (bare.predictions, bare.validation_accuracy) == (None, None)
    with pytest.raises(InputError, match="`given_labels` need a policy that predicts"):
        Run(POLICIES["no_predictions"], given_labels=GIVEN)
    small = Run(given_labels=None, inputs=HOLDOUT[:8]).tracker.probe()
    assert small is not None
    assert small.predictions is None  # no holdout beyond the batch itself


def test_the_batch_is_the_first_of_the_holdout_with_uniform_labels_of_the_seed() -> None:
    run = Run(seed=7)
    generator = torch.Generator().manual_seed(7)
    assert torch.equal(run.tracker.batch.inputs, HOLDOUT[:8])  # type: ignore[arg-type]
    assert torch.equal(run.tracker.batch.labels, torch.randint(CLASSES, (8,), generator=generator))


def test_the_batch_is_not_modified() -> None:
    inputs = HOLDOUT.clone()
    run = Run(inputs=inputs)
    first = run.tracker.probe()
    inputs.zero_()
    second = run.tracker.probe()
    assert first is not None
    assert second is not None
    assert first.drop == second.drop


def test_resampling_brings_new_samples_and_labels() -> None:
    run = Run(POLICIES["resampled"])
    batches = []
    for _ in range(4):
        run.tracker.probe()
        batches.append((run.tracker.batch.inputs.tolist(), run.tracker.batch.labels.tolist()))  # type: ignore[union-attr]
    assert all(a != b for i, a in enumerate(batches) for b in batches[:i])


def test_a_callable_may_draw_random_numbers() -> None:
    def draw() -> Tensor:
        return torch.randn(8, 1, 8, 8)

    policy = rote.ProbePolicy(batch=8, resample=True)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    model, optimizer = build_case("mlp", "sgd")
    torch.manual_seed(0)
    tracker = rote.track(model, optimizer, inputs=draw, num_classes=CLASSES, policy=policy)
    tracker.probe()
    tracker.probe()
    assert torch.equal(torch.rand(3), expected)
    assert tracker.batch.holdout is None


def test_labels_for_the_whole_holdout_are_cut_to_the_batch() -> None:
    run = Run(labels=GIVEN)
    assert torch.equal(run.tracker.batch.labels, GIVEN[:8])
    marginal = Run(labels=rote.labels.Marginal(torch.zeros(20, dtype=torch.long)))
    assert marginal.tracker.batch.labels.tolist() == [0] * 8
    never = Run(labels=rote.labels.NeverGiven(GIVEN, CLASSES))
    assert bool((never.tracker.batch.labels != GIVEN[:8]).all())


class Scripted(nn.Module):
    """A model whose loss on S̃ follows a script: before, after, before, after …"""

    def __init__(self, losses: list[float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.losses = losses

    def loss(self, output: Tensor, labels: Tensor) -> Tensor:
        script = self.losses[int(self.epoch)]
        # The plain step of lr 1 moves the weight from 0 to −1. The first label is 0.
        return output.sum() * 0 + self.weight * script + 1.0 + labels[0]

    epoch = 0

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), CLASSES) + self.weight * 0


def drops_to_tracker(drops: list[float]) -> tuple[rote.Tracker, Scripted]:
    """A tracker whose drops are the squares given by the script."""
    model = Scripted([math.copysign(math.sqrt(abs(d)), d) if d == d else d for d in drops])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    tracker = rote.track(
        model,
        optimizer,
        inputs=torch.ones(3, 2),
        num_classes=CLASSES,
        loss_fn=model.loss,
        policy=rote.ProbePolicy(plain=None),
    )
    return tracker, model


def play(tracker: rote.Tracker, model: Scripted) -> list[rote.Reading]:
    for epoch in range(len(model.losses)):
        model.epoch = epoch
        tracker.probe()
    return tracker.readings


def test_a_non_finite_reading_is_kept_flagged_and_left_out() -> None:
    tracker, model = drops_to_tracker([0.04, math.nan, 0.16])
    with pytest.warns(NonFiniteReadingWarning, match="at step 2 is not finite") as caught:
        readings = play(tracker, model)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [reading.flags for reading in readings] == [(), ("non_finite",), ()]
    assert math.isnan(readings[1].drop)
    assert readings[1].susceptibility == pytest.approx(0.04)
    assert tracker.susceptibility == pytest.approx(0.10)


def test_a_first_reading_that_is_not_finite_gives_no_zeta() -> None:
    tracker, model = drops_to_tracker([math.nan])
    with pytest.warns(NonFiniteReadingWarning):
        play(tracker, model)
    assert math.isnan(tracker.susceptibility)


def test_diverging_reading_and_dominated_mean_are_reported() -> None:
    tracker, model = drops_to_tracker([9e4, 0.1, 0.1, 0.1, 0.1, 0.1])
    with (
        pytest.warns(DivergingReadingWarning, match="step 1 changed by 9e\\+04"),
        pytest.warns(DominatedMeanWarning, match="reading at step 1 makes up more than half"),
    ):
        readings = play(tracker, model)
    assert readings[0].flags == ("diverging",)
    assert [reading.flags for reading in readings[4:]] == [("dominated",)] * 2
    assert readings[-1].susceptibility == pytest.approx(9e4 / 6, rel=1e-4)


def test_metrics_in_percent_are_reported_once() -> None:
    run = Run()
    with pytest.warns(RoteWarning, match=r"shares from 0 to 1, got train_accuracy=54\.3\. Divide"):
        run.tracker.probe(train_accuracy=54.3)
    run.tracker.probe(train_accuracy=60.0, test_accuracy=70.0)  # a warning would be an error
    assert run.tracker.readings[0].train_accuracy == 54.3
    with pytest.warns(RoteWarning, match="got noisy_accuracy=12"):
        Run().tracker.probe(noisy_accuracy=12)


def test_shares_and_other_metrics_of_any_size_are_fine() -> None:
    rounded = torch.tensor(1.0).nextafter(torch.tensor(2.0))  # a mean of ones, in float32
    run = Run()
    reading = run.tracker.probe(train_accuracy=rounded, loss=54.3, my_accuracy=54.3, lr=1e9)
    assert reading is not None


def test_help_says_that_rules_need_the_training_accuracy() -> None:
    text = " ".join((rote.track.__doc__ or "").split())
    assert "``train_accuracy=``, a share from 0 to 1: ``StopRule`` and most rules" in text


def test_metrics_are_numbers_under_free_names() -> None:
    run = Run()
    reading = run.tracker.probe(train_accuracy=torch.tensor(0.5), lr=1)
    assert reading is not None
    assert reading.metrics == {"train_accuracy": 0.5, "lr": 1.0}
    assert reading.train_accuracy == 0.5
    with pytest.raises(AttributeError, match="no attribute 'test_accuracy'"):
        _ = reading.test_accuracy
    for name in ("drop", "run", "row"):
        with pytest.raises(InputError, match=f"name `{name}`"):
            run.tracker.probe(**{name: 1.0})
    for value in ("high", "0.25", [1.0, 2.0], 10**400):
        with pytest.raises(InputError, match="Expected metric `memo` to be a number, got "):
            run.tracker.probe(memo=value)  # type: ignore[arg-type]
    assert len(run.tracker.readings) == 1
    with pytest.raises(AttributeError, match="cannot assign"):
        reading.step = 3  # type: ignore[misc]


def test_foreign_states_are_refused_by_name() -> None:
    run = Run()
    state = run.tracker.state_dict()
    with pytest.raises(StateError, match=r"missing keys \['means'\]"):
        run.tracker.load_state_dict({k: v for k, v in state.items() if k != "means"})
    readings = list(run.tracker.readings)
    with pytest.raises(StateError, match="Expected the means susceptibility, .*, got susceptib"):
        run.tracker.load_state_dict(state | {"means": {"susceptibility": {}}})
    broken = state["means"] | {"susceptibility": {}}
    with pytest.raises(StateError, match="Expected the state of a running mean"):
        run.tracker.load_state_dict(state | {"means": broken})
    assert run.tracker.readings == readings
    with pytest.raises(StateError, match="got NoneType with missing keys"):
        run.tracker.load_state_dict(None)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="for num_classes = 4, got 9"):
        run.tracker.load_state_dict(state | {"num_classes": 9})
    other = Run(rote.ProbePolicy(batch=6)).tracker.state_dict()
    with pytest.raises(StateError, match="Drops of two policies have no common mean"):
        run.tracker.load_state_dict(other)
    with pytest.raises(StateError, match=r"labels of shape \(8,\), got \(6,\)"):
        run.tracker.load_state_dict(other | {"policy": state["policy"]})
    run.tracker.load_state_dict(state | {"policy": state["policy"] | {"verify": True}})
    with pytest.raises(StateError, match="of version 1, got 99"):
        run.tracker.load_state_dict(state | {"version": 99})
    with pytest.raises(StateError, match="`inputs` are not the samples that the state"):
        Run(inputs=HOLDOUT + 1).tracker.load_state_dict(state)


def make_linear() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def frozen_model() -> dict[str, Any]:
    model, optimizer = make_linear()
    model.requires_grad_(False)
    return {"model": model, "optimizer": optimizer}


def frozen_optimizer() -> dict[str, Any]:
    model, _ = make_linear()
    model.weight.requires_grad_(False)
    return {"model": model, "optimizer": torch.optim.SGD([model.weight], lr=0.1)}


BAD_INPUT: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "foreign optimizer": (
        lambda: {"optimizer": make_linear()[1]},
        "`optimizer` holds no parameter of `model`",
    ),
    "no optimizer": (lambda: {"optimizer": "sgd"}, "Expected `optimizer` to be a torch optimizer"),
    "no module": (lambda: {"model": len}, "Expected `model` to be a torch.nn.Module, got builtin"),
    "frozen": (frozen_model, "a parameter that requires gradients, got 2 parameters, all frozen"),
    "lazy": (
        lambda: {"model": nn.LazyLinear(3)},
        "`model` has lazy layers",
    ),
    "wide labels": (
        lambda: {"labels": torch.tensor([0, 1, 3, 0, 0, 0])},
        "Expected `labels` to be classes from 0 to 2 .*, got 3",
    ),
    "negative labels": (
        lambda: {"labels": torch.tensor([0, 1, -1, 0, 0, 0])},
        "Expected `labels` to be classes from 0 to 2 .*, got -1",
    ),
    "few labels": (
        lambda: {"labels": torch.zeros(4, dtype=torch.long)},
        "one label per sample .6., got 4",
    ),
    "no labels": (
        lambda: {"labels": lambda generator: [0] * 6},
        "Expected `labels` to be a tensor",
    ),
    "half a label": (
        lambda: {"given_labels": torch.full((6,), 0.7)},
        "`given_labels` to be integers, one class per sample, got torch.float32",
    ),
    "whole float labels": (
        lambda: {"given_labels": torch.ones(6)},
        r"`given_labels` to be integers.* Convert classes with \.long\(\)",
    ),
    "samples and labels": (
        lambda: {"inputs": (torch.ones(6, 4), torch.zeros(6))},
        r"takes 2 positional .*\. A tuple means several arguments of the model \(2 here\)",
    ),
    "column of labels": (
        lambda: {"given_labels": torch.zeros(6, 1)},
        r"shape \(6,\), got shape \(6, 1\)",
    ),
    "float labels": (
        lambda: {"labels": torch.ones(6)},
        "Expected `labels` to be integers, one class per sample, .* got torch.float32",
    ),
    "ignored labels": (
        lambda: {"labels": torch.full((6,), -100)},
        "Expected `labels` to be classes .*, got only ignored ones",
    ),
    "wrong width": (
        lambda: {"inputs": torch.ones(6, 5)},
        "do not go together. RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    ),
    "wrong type": (
        lambda: {"inputs": torch.ones(6, 4, dtype=torch.float64)},
        "do not go together. RuntimeError",
    ),
    "frozen optimizer": (frozen_optimizer, "that requires gradients, got 1, all frozen"),
    "no path": (lambda: {"save_to": 5}, "Expected `save_to` to be a path, a logger .* got 5"),
    "constant loss": (
        lambda: {"loss_fn": lambda o, y: cross_entropy(o.detach(), y)},
        "not depend on parameters that require gradients",
    ),
    "label list": (lambda: {"labels": [0] * 6}, "Expected `labels` to be a tensor .*, got list"),
    "numpy": (lambda: {"inputs": np.ones((6, 4))}, "got ndarray without .* torch.as_tensor"),
    "half a class": (
        lambda: {"num_classes": 2.5},
        "`num_classes` to be an integer of at least 2, got 2.5",
    ),
    "soft labels": (lambda: {"labels": torch.full((6, 3), 2.0)}, "numbers from 0 to 1"),
    "other width": (
        lambda: {"num_classes": 5},
        "Expected the model's logits to have num_classes = 5 classes, got 3",
    ),
    "one class": (
        lambda: {"num_classes": 1},
        "`num_classes` to be an integer of at least 2, got 1",
    ),
    "empty": (lambda: {"inputs": torch.zeros(0, 4)}, "to hold at least one sample, got 0"),
    "no tensor": (lambda: {"inputs": {"x": 3}}, "got dict without a tensor of samples"),
    "mismatched": (
        lambda: {"inputs": (torch.zeros(3, 4), torch.zeros(2, 4))},
        r"same number of samples, got inputs\[0\]: 3, inputs\[1\]: 2",
    ),
    "vector loss": (
        lambda: {"loss_fn": lambda o, y: cross_entropy(o, y, reduction="none")},
        r"Expected `loss_fn` to return a scalar tensor, got shape \(6,\)",
    ),
    "float loss": (lambda: {"loss_fn": lambda o, y: 1.0}, "a scalar tensor, got float"),
    "token logits": (
        lambda: {"inputs": torch.zeros(6, 2, 4)},
        r"Expected the model to return one row of logits per label .*got shape \(6, 2, 3\)",
    ),
    "few given labels": (
        lambda: {"given_labels": torch.zeros(4)},
        r"one label per sample of `inputs`, shape \(6,\), got shape \(4,\)",
    ),
    "wide given labels": (
        lambda: {"given_labels": torch.full((6,), 9)},
        "Expected `given_labels` to be classes from 0 to 2, got 9",
    ),
    "no policy": (lambda: {"policy": "live"}, "Expected `policy` to be a ProbePolicy, got 'live'"),
    "no seed": (lambda: {"seed": None}, "Expected `seed` to be an integer of .*, got None"),
    "nothing to resume": (lambda: {"resume": True}, "needs `save_to`, the run to resume"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_refused_before_anything_is_touched(case: str, tmp_path: Any) -> None:
    change, message = BAD_INPUT[case]
    model, optimizer = make_linear()
    arguments: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "inputs": torch.ones(6, 4),
        "num_classes": 3,
        "save_to": None if case == "nothing to resume" else tmp_path / "run",
    }
    arguments |= change()
    with pytest.raises(InputError, match=message), rote.preserved(model, optimizer, verify=True):
        rote.track(arguments.pop("model"), arguments.pop("optimizer"), **arguments)
    assert not (tmp_path / "run").exists()


def test_bad_policies_are_refused() -> None:
    with pytest.raises(InputError, match="'live', 'fresh' or a PlainStep, got 'dead'"):
        rote.ProbePolicy(optimizer="dead")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Expected `plain` to be a PlainStep or None, got 0.1"):
        rote.ProbePolicy(plain=0.1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Expected `mode` to be one of train, eval, got 'test'"):
        rote.ProbePolicy(mode="test")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Expected `every` to be an integer of at least 1, got 0"):
        rote.ProbePolicy(every=0)
    with pytest.raises(
        InputError, match="Expected `batch` to be an integer of at least 1, got 1.5"
    ):
        rote.ProbePolicy(batch=1.5)  # type: ignore[arg-type]
    for lr in (-1, "0.1", math.inf, None):
        with pytest.raises(
            InputError, match="Expected `lr` to be a number that is positive and finite, got "
        ):
            rote.PlainStep(lr=lr)  # type: ignore[arg-type]
    assert rote.ProbePolicy(batch=np.int64(3), every=np.int64(2)).batch == 3  # type: ignore[arg-type]


def test_a_failed_probe_draws_no_random_numbers() -> None:
    class Failing(nn.Linear):
        fails = False

        def forward(self, x: Tensor) -> Tensor:
            if self.fails:
                raise RuntimeError("down")
            return super().forward(x)

    def readings(fail: bool) -> list[float]:
        torch.manual_seed(0)
        model = Failing(4, 3)
        tracker = rote.track(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            inputs=torch.randn(9, 4, generator=torch.Generator().manual_seed(1)),
            num_classes=3,
            policy=rote.ProbePolicy(batch=5, resample=True),
        )
        tracker.probe()
        model.fails = fail
        if fail:
            with pytest.raises(RuntimeError, match="down"):
                tracker.probe()
        model.fails = False
        tracker.probe()
        return [reading.drop for reading in tracker.readings]

    assert readings(fail=True) == readings(fail=False)


def test_a_reading_that_cannot_be_written_is_not_kept(tmp_path: Any) -> None:
    run, twin = Run(save_to=tmp_path / "run"), Run()
    for each in (run, twin):
        each.epochs(1, 2)
    append = run.tracker._run.append

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    run.tracker._run.append = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="No space left"):
        run.tracker.probe()
    run.tracker._run.append = append  # type: ignore[method-assign]
    for each in (run, twin):
        each.epochs(3, 4)
    written = list(read_whole_readings(tmp_path / "run"))
    assert without_seconds(written) == without_seconds(twin.tracker.readings)
    assert written == run.tracker.readings


def test_only_the_step_that_fails_is_flagged() -> None:
    model, optimizer = make_linear()
    tracker = rote.track(
        model,
        optimizer,
        inputs=torch.ones(6, 4),
        num_classes=3,
        policy=rote.ProbePolicy(plain=rote.PlainStep(1e38)),
    )
    with pytest.warns(NonFiniteReadingWarning, match="left out of ζ of the reference step"):
        reading = tracker.probe()
    assert reading is not None
    assert reading.flags == ("non_finite_plain",)
    assert math.isfinite(reading.susceptibility)


def test_tied_labels_must_cover_every_sample_that_may_be_drawn() -> None:
    never = rote.labels.NeverGiven(GIVEN[:8], CLASSES)
    with pytest.raises(InputError, match="one label per sample .20., got 8"):
        Run(POLICIES["resampled"], labels=never)
    Run(POLICIES["resampled"], labels=rote.labels.NeverGiven(GIVEN, CLASSES)).tracker.probe()


def test_given_labels_need_fixed_inputs() -> None:
    model, optimizer = make_linear()
    with pytest.raises(InputError, match="need fixed `inputs`"):
        rote.track(
            model,
            optimizer,
            inputs=lambda: torch.ones(6, 4),
            num_classes=3,
            given_labels=torch.zeros(6),
            policy=rote.ProbePolicy(resample=True),
        )


@pytest.mark.parametrize("name", MODELS)
def test_a_relative_susceptibility_is_at_most_one(name: str) -> None:
    model, optimizer = build_case(name, "adam")
    tracker = rote.track(model, optimizer, inputs=HOLDOUT, num_classes=CLASSES)
    reading = tracker.probe()
    assert reading is not None
    assert reading.susceptibility_relative <= 1.0
