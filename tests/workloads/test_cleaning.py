"""Cleaned copies: the original and the holdout stay as they are, the rest gets better."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rote
from rote.errors import InputError
from rote.selection import rank_suspects
from rote.store import read_predictions, read_run
from rote.workloads import (
    RunSpec,
    compare_on_holdout,
    get_holdout_path,
    make_spec_to_compare,
    plan_cleaning,
    prepare,
    suggest_spec,
    train,
    train_folds,
    write_cleaned,
)
from rote.workloads.cleaning import compare_hits
from tests.workloads.small_runs import read_npz, small_spec, write_npz

CLASSES = np.array(["ant", "-1", "=cow"])  # two of them look like formulas


def make_data(samples: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, given labels and true labels; about a fifth of them differ."""
    generator = np.random.default_rng(1)
    truth = generator.integers(3, size=samples)
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    features = centers[truth] + generator.normal(size=(samples, 2))
    flipped = generator.random(samples) < 0.2
    given = np.where(flipped, (truth + generator.integers(1, 3, size=samples)) % 3, truth)
    return features.round(4), given, truth


def short(spec: RunSpec) -> RunSpec:
    return replace(RunSpec.from_dict(spec.to_dict() | {"epochs": 6, "signals": []}))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    features, given, _ = make_data()
    frame = {"id": [f"row {n}" for n in range(240)], "a": features[:, 0], "b": features[:, 1]}
    pl.DataFrame(frame | {"label": CLASSES[given]}).write_csv(folder / "my.csv")
    spec = short(suggest_spec(folder / "my.csv"))
    train_folds(spec, folder / "folds", 3)
    train(spec, folder / "run")
    return folder


def test_a_plan_prints_in_a_line(table: Path) -> None:
    shown = repr(plan_cleaning(table / "folds"))
    assert "noise_rate=0." in shown
    assert len(shown) < 400


def test_suspects_are_dropped_and_relabeled_and_nothing_else_changes(
    table: Path, tmp_path: Path
) -> None:
    before = (table / "my.csv").read_bytes()
    plan = rote.clean(table / "folds", tmp_path / "cleaned.csv")
    assert (table / "my.csv").read_bytes() == before
    _, given, truth = make_data()
    held = set(read_npz(table / "run" / "labels.npz")["holdout"].tolist())
    assert set(plan.holdout.tolist()) == held
    assert {change.sample for change in plan.changes} & held == set()
    assert plan.count("drop") + plan.count("relabel") == len(plan.changes) > 20
    wrong = [given[change.sample] != truth[change.sample] for change in plan.changes]
    assert np.mean(wrong) > 0.8
    old, new = pl.read_csv(table / "my.csv"), pl.read_csv(tmp_path / "cleaned.csv")
    dropped = {change.sample for change in plan.changes if change.action == "drop"}
    kept = [n for n in range(240) if n not in dropped]
    assert new["id"].to_list() == [f"row {n}" for n in kept]
    labels = dict(zip(new["id"], new["label"], strict=True))
    changed = {change.sample: change for change in plan.changes}
    for n in kept:
        expected = changed[n].proposed if n in changed else old["label"][n]
        assert labels[f"row {n}"] == expected
    with (tmp_path / "cleaned.csv.changes.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(plan.changes)


def test_the_retrained_run_has_the_same_holdout_with_its_original_labels(
    table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "cleaned.csv"
    plan = rote.clean([table / "folds", table / "run"], out)
    assert plan.run == table / "run"
    new_run = train(make_spec_to_compare(table / "run", out), tmp_path / "new")
    old, new = (read_npz(run / "labels.npz") for run in (table / "run", tmp_path / "new"))
    ids = pl.read_csv(out)["id"].to_list()
    rows = [ids[place] for place in new["table_rows"][new["holdout"]]]
    assert rows == [f"row {n}" for n in old["table_rows"][old["holdout"]]]
    found = compare_on_holdout(table / "run", tmp_path / "new")
    assert found.samples == len(old["holdout"]) == 24
    # By hand: the predictions of the selected checkpoint against labels of the original file.
    given = pl.read_csv(table / "my.csv", infer_schema=False)["label"].to_numpy()
    held = given[old["table_rows"][old["holdout"]]]
    assert np.mean(held == CLASSES[make_data()[2]][old["table_rows"][old["holdout"]]]) < 1
    shares = [np.mean(predict_holdout(run) == held) for run in (table / "run", new_run.path)]
    assert (found.before, found.after) == pytest.approx(tuple(shares))
    assert found.difference == pytest.approx(shares[1] - shares[0])
    assert "24 holdout samples with their original labels" in str(found)
    with pytest.raises(InputError, match="same holdout"):
        compare_on_holdout(table / "run", table / "folds" / "fold-0")


def predict_holdout(run: Path) -> np.ndarray:
    """Return the names of the classes that the selected checkpoint of a run predicts."""
    record, step = read_run(run), rote.select(run).pick.step
    (row,) = [at for at, reading in enumerate(record.readings) if reading.step == step]
    predictions = read_predictions(record)
    assert predictions is not None
    names = json.loads((run / "workload.json").read_bytes())["data"]["class_names"]
    return np.array(names)[predictions[row]]


def test_the_interval_of_a_comparison_is_that_of_bonett_and_price() -> None:
    before = np.array([True] * 6 + [False] * 4)
    after = np.array([True] * 5 + [False] + [True] * 3 + [False])  # 3 gained, 1 lost
    found = compare_hits(before, after)
    assert (found.before, found.after) == (0.6, 0.8)
    assert found.difference == pytest.approx(0.2)
    gained, lost = 4 / 12, 2 / 12
    expected = 1.96 * math.sqrt((gained + lost - (gained - lost) ** 2) / 12)
    assert found.margin == pytest.approx(expected)
    assert compare_hits(before, before).margin == pytest.approx(1.96 * math.sqrt(2 / 12 / 12))


def test_columns_of_labels_and_truth_are_taken_from_the_run(tmp_path: Path) -> None:
    features, given, truth = make_data(120)
    frame = pl.DataFrame({"a": features[:, 0], "b": features[:, 1]}).with_columns(
        klass=CLASSES[given], right=CLASSES[truth]
    )
    frame.write_csv(tmp_path / "my.csv")
    spec = short(suggest_spec(tmp_path / "my.csv", label="klass", truth="right"))
    train(spec, tmp_path / "run")
    train_folds(spec, tmp_path / "folds", 2)
    rote.clean(tmp_path / "folds", tmp_path / "cleaned.csv")
    found = make_spec_to_compare(tmp_path / "run", tmp_path / "cleaned.csv")
    assert found.data == replace(spec.data, path=str(tmp_path / "cleaned.csv"))
    assert prepare(found).in_channels == 2  # the true labels are no input
    with pytest.raises(InputError, match="runs with folds"):
        make_spec_to_compare(tmp_path / "folds", tmp_path / "cleaned.csv")
    with pytest.raises(InputError, match=r"not a run.*rote train"):
        make_spec_to_compare(tmp_path, tmp_path / "cleaned.csv")
    with pytest.raises(InputError, match="`rote clean` did not write"):
        make_spec_to_compare(tmp_path / "run", tmp_path / "my.csv")


def test_another_run_has_another_holdout(table: Path, tmp_path: Path) -> None:
    rote.clean(table / "folds", tmp_path / "cleaned.csv")
    spec = RunSpec.from_toml(table / "run" / "spec.toml")
    train(replace(spec, probe=replace(spec.probe, holdout_size=30)), tmp_path / "other")
    with pytest.raises(InputError, match="is not that of"):
        make_spec_to_compare(tmp_path / "other", tmp_path / "cleaned.csv")


def test_a_review_is_applied_as_it_was_edited(table: Path, tmp_path: Path) -> None:
    plan = plan_cleaning(table / "folds")
    lines = plan.to_csv().splitlines()
    edited = [lines[0], *(f"{line.rpartition(',')[0]},keep" for line in lines[1:])]
    edited[1] = f"{edited[1].rpartition(',')[0]},drop"
    review = tmp_path / "review.csv"
    review.write_text("\n".join(edited))
    found = plan_cleaning(table / "folds", review=review)
    assert [(one.sample, one.action) for one in found.changes] == [(plan.changes[0].sample, "drop")]
    stricter = plan_cleaning(table / "folds", drop=2, relabel=2, review=review)
    assert stricter.changes == found.changes  # a review replaces both probabilities
    review.write_text("\n".join([lines[0], f"{plan.holdout[0]},,ant,ant,0.9,drop"]))
    with pytest.raises(InputError, match=r"`sample` in line 2 .* Holdout samples stay"):
        plan_cleaning(table / "folds", review=review)
    review.write_text("\n".join([*edited[:1], edited[1].replace("drop", "burn")]))
    with pytest.raises(InputError, match=r"`action` in line 2 .* got 'burn'"):
        plan_cleaning(table / "folds", review=review)


def test_the_list_is_that_of_suspects(table: Path) -> None:
    (ranking,) = rank_suspects(table / "folds")
    plan = plan_cleaning(table / "folds")
    expected = [
        (one.sample, one.probability)
        for one in ranking.suspects
        if one.sample not in set(plan.holdout.tolist())
    ]
    assert [(one.sample, one.probability) for one in plan.changes] == expected
    assert plan.noise_rate == ranking.noise_rate
    assert not plan.has_scores


def test_without_folds_samples_have_scores_and_are_only_dropped(
    table: Path, tmp_path: Path
) -> None:
    spec = suggest_spec(table / "my.csv")
    train(RunSpec.from_dict(spec.to_dict() | {"epochs": 6, "signals": ["aum"]}), tmp_path / "run")
    plan = plan_cleaning(tmp_path / "run", relabel=0.5)
    assert plan.has_scores
    assert plan.count("relabel") == 0
    _, given, truth = make_data()
    dropped = [change.sample for change in plan.changes]
    assert len(dropped) > 10
    assert np.mean(given[dropped] != truth[dropped]) > 0.5  # of all samples, a fifth
    assert set(dropped) & set(plan.holdout.tolist()) == set()
    wrong = [change for change in plan.changes if given[change.sample] != truth[change.sample]]
    assert np.mean([one.proposed == CLASSES[truth[one.sample]] for one in wrong]) > 0.6


def test_thresholds_decide_which_samples_are_changed(table: Path) -> None:
    none = plan_cleaning(table / "folds", drop=2, relabel=2)
    assert none.changes == ()
    only = plan_cleaning(table / "folds", drop=2, relabel=0.5)
    assert only.count("drop") == 0
    assert only.count("relabel") > 20


def test_arrays_keep_their_places(tmp_path: Path) -> None:
    features, given, _ = make_data()
    write_npz(tmp_path / "a.npz", x_train=features.astype(np.float32), y_train=given)
    train_folds(short(suggest_spec(tmp_path / "a.npz")), tmp_path / "folds", 3)
    plan = rote.clean(tmp_path / "folds", tmp_path / "b.npz")
    write_cleaned(plan, tmp_path / "labels.npy")
    new = read_npz(tmp_path / "b.npz")
    expected = given.copy()
    for change in plan.changes:
        expected[change.sample] = -1 if change.action == "drop" else int(change.proposed)
    assert np.array_equal(new["y_train"], expected)
    assert np.array_equal(np.load(tmp_path / "labels.npy"), expected)
    spec = suggest_spec(tmp_path / "b.npz")
    rows = str(get_holdout_path(tmp_path / "b.npz"))
    splits = prepare(replace(spec, probe=replace(spec.probe, holdout_rows=rows)))
    assert splits.holdout_labels is not None
    assert np.array_equal(splits.holdout_labels.numpy(), given[plan.holdout])


@pytest.mark.filterwarnings("ignore::rote.errors.RoteWarning")
def test_a_folder_becomes_links(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    generator = np.random.default_rng(0)
    for name, color in (("cat", 40), ("dog", 200)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for n in range(40):
            shade = color if n >= 4 else 240 - color  # four of each are mislabeled
            pixels = np.clip(generator.normal(shade, 5, (8, 8)), 0, 255).astype(np.uint8)
            image.fromarray(pixels).save(tmp_path / "photos" / name / f"{n:02}.png")
    spec = RunSpec.from_dict(
        suggest_spec(tmp_path / "photos").to_dict()
        | {"epochs": 3, "signals": [], "architecture": {"name": "mlp", "options": {"width": 16}}}
    )
    train_folds(spec, tmp_path / "folds", 2)
    plan = rote.clean(tmp_path / "folds", tmp_path / "cleaned")
    files = {
        str(f.relative_to(tmp_path / "cleaned")) for f in (tmp_path / "cleaned").rglob("*.png")
    }
    assert len(files) == 80 - plan.count("drop")
    for change in plan.changes:
        if change.action == "relabel":
            given, _, name = change.file.partition("/")
            assert f"{change.proposed}/{given}-{name}" in files
    rows = np.load(get_holdout_path(tmp_path / "cleaned"))
    from rote.workloads import read_data

    found = read_data(tmp_path / "cleaned").files
    assert [found[row] for row in rows] == [plan.files[at] for at in plan.holdout]


def test_data_that_cannot_be_cleaned_are_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="judge its training samples"):
        plan_cleaning(table / "run")  # it recorded no signals of training samples
    (tmp_path / "there.csv").touch()
    with pytest.raises(InputError, match="exists already"):
        rote.clean(table / "folds", tmp_path / "there.csv")
    with pytest.raises(InputError, match="to be a table"):
        rote.clean(table / "folds", tmp_path / "out.npz")
    train_folds(small_spec(epochs=1, noise="none", probe={"batch": 8}), tmp_path / "digits", 2)
    with pytest.raises(InputError, match="Only data of your own"):
        plan_cleaning(tmp_path / "digits")
