"""Runs of others that hold no ζ: what they hold is listed and drawn, and the way to ζ is told."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import rote
from rote.cli.main import app
from rote.records import COLUMNS
from rote.store.mapping import guess_mapping
from tests.loggers import new_mlflow_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loggers")]

ACCURACIES = [0.3, 0.5, 0.55, 0.5, 0.45]
PAIRS = ("validation_accuracy=val/acc", "train_accuracy=acc")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An experiment as it is logged by people who have not heard of ζ."""
    mlflow = pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    uri = new_mlflow_store(tmp_path_factory.mktemp("store"))
    client = mlflow.MlflowClient(tracking_uri=uri)
    run = client.create_run(client.create_experiment("theirs"), run_name="first").info.run_id
    for step, accuracy in enumerate(ACCURACIES, start=1):
        client.log_metric(run, "val/acc", accuracy, step=step)
        client.log_metric(run, "acc", step / 6, step=step)
        client.log_metric(run, "loss", 1 / step, step=step)
    return f"mlflow:theirs@{uri}"


def test_metrics_are_listed_and_the_mapping_that_is_proposed_works(theirs: str) -> None:
    (said,) = [text for text in rote.select(theirs).warnings if "No checkpoint has ζ" in text]
    assert "These runs hold `acc`, `loss`, `val/acc`." in said
    assert f"`{' '.join(f'--map {pair}' for pair in PAIRS)}`" in said
    assert "`--map susceptibility=METRIC`" in said
    assert "`rote probe CHECKPOINTS" in said
    mapping = dict(pair.split("=") for pair in PAIRS)
    found = rote.select(theirs, mapping=mapping)
    assert (found.rule, found.pick.step) == ("noisy-validation", 3)  # the highest accuracy
    (said,) = [text for text in found.warnings if "No checkpoint has ζ" in text]
    assert "validation_accuracy=" not in said  # it is there now
    assert not any("no regions" in text for text in found.warnings)  # once is enough


def test_no_hint_if_zeta_is_recorded(theirs: str) -> None:
    found = rote.select(theirs, mapping={"susceptibility": "loss", "train_accuracy": "acc"})
    assert not any("No checkpoint has ζ" in text for text in found.warnings)


def test_the_page_shows_recorded_metrics_and_one_note_on_zeta(theirs: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = [word for pair in PAIRS for word in ("--map", pair)]
    result = CliRunner().invoke(app, ["report", theirs, "-o", str(page), *words])
    assert result.exit_code == 0, result.output
    assert "Caution: No checkpoint has ζ" in result.output
    text = page.read_text()
    assert text.count("No checkpoint has ζ") == 1
    assert 'id="chart-zeta"' not in text
    assert 'id="filter-title"' not in text
    assert "Expected <code>susceptibility</code>" not in text
    for label in ("training accuracy", "loss"):
        assert f'aria-label="{label} over training steps, one line per run."' in text


def test_a_page_without_training_accuracy_has_no_place_for_it(theirs: str, tmp_path: Path) -> None:
    text = rote.report(theirs, tmp_path / "page.html").path.read_text()
    assert "<dt>training accuracy</dt>" not in text
    assert '<th scope="col" class="figure">Train</th>' not in text


def test_three_steps_have_three_ticks(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("run,step,loss\na,1,2.0\na,2,1.5\na,3,1.0\n")
    drawn = rote.plot.tracking(f"csv:{file}").to_json()
    assert '"values": [1, 2, 3]' in " ".join(drawn.split()).replace("[ ", "[").replace(" ]", "]")


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (["trainZeta", "my_zeta"], {"susceptibility": "my_zeta"}),
        (["Accuracy/train", "Accuracy/val", "Accuracy/test"], ["Accuracy/val", "Accuracy/test"]),
        (["eval_accuracy", "train_acc"], {"validation_accuracy": "eval_accuracy"}),
        (["f1", "loss", "accuracy_gap"], {}),
        (["top1"], {"train_accuracy": "top1"}),
    ],
)
def test_names_are_guessed_by_their_words(
    metrics: list[str], expected: dict[str, str] | list[str]
) -> None:
    found = guess_mapping(metrics, COLUMNS)
    if isinstance(expected, list):
        assert list(found.values()) == [*expected, metrics[0]]
    else:
        assert found.items() >= expected.items()
        assert bool(found) == bool(expected)
    assert guess_mapping(metrics, ()) == {}
