from pathlib import Path
from typing import Any

import pytest
import torch

keras = pytest.importorskip("keras", reason="needs rote[keras]")

import rote  # noqa: E402
from rote.errors import InputError  # noqa: E402
from rote.integrations.keras import SusceptibilityCallback  # noqa: E402
from tests.integrations.small_runs import (  # noqa: E402
    BATCH,
    CLASSES,
    FEATURES,
    DeepCopies,
    X,
    Y,
    assert_as_expected,
    bits,
)

pytestmark = pytest.mark.slow

if keras.backend.backend() != "torch":
    pytest.skip("needs KERAS_BACKEND=torch", allow_module_level=True)


def fast() -> Any:
    return keras.optimizers.Adam(0.05)


class Checked(DeepCopies, SusceptibilityCallback):
    """Deep copies of a Keras model are made by Keras itself; a twin gets all variables instead."""

    case: dict[str, Any]

    def losses_of_copies(self) -> tuple[float, float]:
        start = torch.get_rng_state()
        twin = build(**self.case)
        twin.optimizer.build(twin.trainable_variables)
        mine, theirs = everything(twin), everything(self.model)
        for variable, original in zip(mine, theirs, strict=True):
            variable.assign(original.value)
        rest = [(v, v.value.clone()) for v in twin.variables if not v.trainable]
        x, y = self.tracker.batch.inputs, self.tracker.batch.labels
        if self.case.get("one_hot"):
            y = torch.nn.functional.one_hot(y, CLASSES).float()
        torch.set_rng_state(start)
        before = twin.loss(y, twin(x, training=True))
        before.backward()
        weights = twin.trainable_variables
        with torch.no_grad():
            twin.optimizer.apply([weight.value.grad for weight in weights], weights)
            for variable, value in rest:
                variable.assign(value)
            torch.set_rng_state(start)
            return before.item(), twin.loss(y, twin(x, training=True)).item()


def everything(model: Any) -> list[Any]:
    return [*model.variables, *model.optimizer.variables]


def build(*, logits: bool = False, one_hot: bool = False, optimizer: Any = "adam") -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Dense(12),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Dropout(0.3),
            layers.Dense(CLASSES, activation=None if logits else "softmax"),
        ]
    )
    kind = "CategoricalCrossentropy" if one_hot else "SparseCategoricalCrossentropy"
    loss = getattr(keras.losses, kind)(from_logits=logits)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    return model


def fitted(*callbacks: Any, epochs: int = 3, **options: Any) -> tuple[Any, Any, Any]:
    model = build(**options)
    labels = torch.nn.functional.one_hot(Y, CLASSES).float() if options.get("one_hot") else Y
    keras.utils.set_random_seed(5)
    history = model.fit(
        X.numpy(),
        labels.numpy(),
        batch_size=BATCH,
        epochs=epochs,
        verbose=0,
        callbacks=list(callbacks),
    )
    values = [variable.value for variable in everything(model)]
    left = bits([values, history.history["loss"], torch.get_rng_state()])
    return model, history.history, left


CASES: list[dict[str, Any]] = [
    {},
    {"logits": True, "optimizer": "sgd"},
    {"one_hot": True, "optimizer": "rmsprop"},
]


@pytest.mark.parametrize("every", ["epoch", 4])
@pytest.mark.parametrize("case", CASES)
def test_training_is_bit_identical_and_readings_are_those_of_deep_copies(
    case: dict[str, Any], every: Any
) -> None:
    _, _, expected = fitted(**case)
    callback = Checked(
        num_classes=CLASSES, inputs=X, every=every, policy=rote.ProbePolicy(verify=True)
    )
    callback.case = case
    _, history, found = fitted(callback, **case)
    assert found == expected
    assert_as_expected(callback, 3 if every == "epoch" else 4)
    assert history["susceptibility"][-1] == callback.tracker.susceptibility
    accuracies = [reading.train_accuracy for reading in callback.tracker.readings]
    if every == "epoch":
        assert accuracies == [float(accuracy) for accuracy in history["accuracy"]]


def test_the_rule_stops_and_the_verdict_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = rote.StopRule(train_accuracy=0.0, patience=1, min_epochs=1)
    callback = SusceptibilityCallback(
        num_classes=CLASSES, inputs=X, stop=rule, save_to=tmp_path / "run"
    )
    with caplog.at_level("INFO", logger="rote"):
        _, history, _ = fitted(callback, epochs=60, optimizer=fast())
    assert len(history["loss"]) == len(callback.tracker.readings) < 60
    assert rote.select(tmp_path / "run").headline in caplog.text


def test_other_callbacks_can_monitor_it() -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, inputs=X)
    stopper = keras.callbacks.EarlyStopping("susceptibility", mode="min", patience=1)
    fitted(callback, stopper, epochs=60, optimizer=fast())
    zeta = [reading.susceptibility for reading in callback.tracker.readings]
    assert len(zeta) < 60
    assert zeta[-1] > min(zeta)


def test_a_second_fit_resumes(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, inputs=X, save_to=tmp_path / "run")
    model, _, _ = fitted(callback, epochs=2)
    model.fit(X.numpy(), Y.numpy(), batch_size=BATCH, verbose=0, callbacks=[callback])
    assert [reading.global_step for reading in callback.tracker.readings] == [6, 12, 18]
    assert len(rote.store.read_run(tmp_path / "run").readings) == 3


def test_it_needs_inputs() -> None:
    with pytest.raises(InputError, match="does not show its callbacks the training set"):
        fitted(SusceptibilityCallback(num_classes=CLASSES))


def test_sigmoid_outputs_are_classified_at_one_half() -> None:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Input((FEATURES,)), keras.layers.Dense(1, activation="sigmoid")]
    model = keras.Sequential(layers)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    callback = SusceptibilityCallback(num_classes=2, inputs=X, given_labels=Y % 2)
    model.fit(X.numpy(), (Y % 2).numpy(), epochs=1, verbose=0, callbacks=[callback])
    reading = callback.tracker.readings[-1]
    expected = model(X)[:, 0].detach().numpy() > 0.5
    assert reading.predictions is not None
    assert reading.predictions.tolist() == expected.astype(int).tolist()
    assert 0 < expected.sum() < len(X)
