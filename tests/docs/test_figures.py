"""Figures that README and docs cite are those that their commands have written."""

import json
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

import rote
from rote.studies import find_study

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SELECTION = (ROOT / "docs" / "selection.md").read_text(encoding="utf-8")
STOPPING = (ROOT / "docs" / "stopping.md").read_text(encoding="utf-8")
COMPATIBILITY = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
PROBE = json.loads((ROOT / "benchmarks" / "probe.json").read_text())["results"]
BOARD = json.loads((ROOT / "docs" / "results" / "leaderboard.json").read_text())
LEARNED = json.loads((ROOT / "docs" / "results" / "leaderboard-medium.json").read_text())
TUNING = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
TUNED = json.loads((ROOT / "docs" / "results" / "tuning.json").read_text())["pools"]
STOPS = json.loads((ROOT / "docs" / "results" / "stopping.json").read_text())["pools"]
MEANS = BOARD["means"]["judged"]
NONE = "–"


def points(share: float) -> str:
    return f"{100 * share:.1f}"


def table_row(page: str, first: str) -> list[str]:
    """Return the cells after the first one of the only table row that begins with ``first``."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.replace("**", "").splitlines()
        if line.startswith("|")
    ]
    (row,) = (cells for cells in rows if cells[0] == first)
    return row[1:]


def numbers_near(page: str, words: str) -> list[str]:
    """Return all numbers of the paragraph, bullet or table row that contains ``words``."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*- |\|)", page.replace("**", ""))
    (block,) = (block for block in blocks if words in " ".join(block.split()))
    return re.findall(r"\d+(?:\.\d+)?", block)


def same_labels(group: str, measure: str, board: Any = BOARD) -> float:
    """Mean regret of noisy validation on as many labels as ``auto`` has, the whole holdout."""
    found = []
    for name in board["groups"][group]:
        rows = board["pools"][name]["rows"]
        sizes = [
            int(row.rpartition(" ")[2]) for row in rows if row.startswith("noisy validation, n")
        ]
        found.append(rows[f"noisy validation, n = {max(sizes)}"][measure][0])
    return fmean(found)


def cost(group: str, selector: str, measure: str, board: Any = BOARD) -> str:
    if selector == "noisy validation, same labels":
        return points(same_labels(group, measure, board))
    row = board["means"][group][selector]
    return points(row[measure][0]) if measure in row else NONE


def test_the_cost_of_a_probe_is_what_make_bench_has_measured() -> None:
    cited = numbers_near(README, "training steps of ResNet18")
    for name in ("resnet18", "resnet18_nchw"):
        assert f"{PROBE[name]['probe_over_step']:.2f}" in cited
    assert PROBE["cnn"]["epoch_with_probe_over_without"] < 1.01


SELECTORS = {
    "rote, several runs (`auto`)": "auto",
    "rote, one run alone": "auto, one run alone",
    "noisy validation, same labels": "noisy validation, same labels",
    "Dawid–Skene": "Dawid–Skene",
    "last checkpoint": "last checkpoint",
    "LabelWave": "LabelWave",
    "the paper's regions": "regions (the paper's rule)",
    "lowest ζ": "lowest ζ",
}


@pytest.mark.parametrize(("label", "selector"), SELECTORS.items())
def test_regrets_in_the_readme_are_those_of_the_leaderboard(label: str, selector: str) -> None:
    expected = [
        cost(group, selector, measure, board)
        for group, board in (("judged", LEARNED), ("fresh", BOARD))
        for measure in ("regret", "pool")
    ]
    assert table_row(README, label) == expected


def test_every_row_of_the_readme_is_one_of_those_above() -> None:
    table = README[README.index("| fewer is better |") :].partition("\n\n")[0]
    labels = [line.strip("|").split("|")[0].strip() for line in table.splitlines()[2:]]
    assert labels == list(SELECTORS)


def test_the_first_numbers_of_the_readme_are_those_of_leaderboard_and_compatibility() -> None:
    cited = numbers_near(README, "lost against the best checkpoint of a run")
    for selector in ("auto", "last checkpoint", "noisy validation, same labels"):
        assert cost("judged", selector, "regret", LEARNED) in cited, selector
    assert str(len(LEARNED["groups"]["judged"])) in cited
    rows = re.findall(r"^\| \*\*all\*\* \|(.*)\|$", COMPATIBILITY, flags=re.MULTILINE)
    totals = [[int(cell) for cell in row.split("|")] for row in rows]
    assert [kind[-2:] for kind in totals] == [[0, 0], [0, 0]]  # none changed, none failed
    same = sum(kind[1] for kind in totals)
    assert str(same) in numbers_near(README, "of training change")


def test_the_readme_says_how_many_pools_there_are() -> None:
    heading = next(line for line in README.splitlines() if "per run" in line and "|" in line)
    counts = {str(len(LEARNED["groups"]["judged"])), str(len(BOARD["groups"]["fresh"]))}
    assert counts <= set(re.findall(r"\d+", heading))
    assert {BOARD["pools"][name]["runs"] for name in BOARD["groups"]["judged"]} == {30}


def test_regrets_without_a_holdout_are_those_of_the_leaderboard() -> None:
    alone, last = MEANS["filter, one run alone"]["regret"][0], MEANS["last checkpoint"]
    cited = numbers_near(README, "Without a holdout")
    assert points(alone) in cited
    assert points(MEANS["staged"]["pool"][0]) in cited
    assert alone < last["regret"][0] < alone + 0.005  # "hardly better"
    assert MEANS["staged"]["pool"][0] < last["pool"][0]


def test_docs_name_the_cases_where_the_verdict_loses() -> None:
    rules, pair = BOARD["pools"]["youtube-0"]["rows"], BOARD["pools"]["mnist-pair-1"]["rows"]
    cited = numbers_near(README, "Where it loses")
    for rows, selector in (
        (rules, "last checkpoint"),
        (rules, "auto"),
        (pair, "noisy validation, n = 512"),
        (pair, "auto"),
    ):
        assert points(rows[selector]["regret"][0]) in cited, selector
    human = [BOARD["pools"][name]["rows"] for name in BOARD["groups"]["judged"] if "10n" in name]
    assert len(human) == 2
    for rows in human:
        assert rows["noisy validation, n = 256"]["pool"][0] < rows["auto"]["pool"][0]


def test_figures_on_stopping_match_its_study() -> None:
    pools = STOPS.values()

    def mean(way: str, key: str) -> float:
        return fmean(pool[way][key] for pool in pools)

    ways = {"nothing: the last checkpoint": "last checkpoint", "`noise_rate`": "noise_rate"}
    for label in (*ways, "noisy validation", "ζ"):
        way = ways.get(label, label)
        assert table_row(STOPPING, label) == [
            points(mean(way, "regret")),
            f"{mean(way, 'stop'):.0f}",
        ]
    cited = numbers_near(STOPPING, "`noise_rate`, 0.1 too high")
    for how in ("high", "low"):
        assert points(mean(f"noise_rate 0.1 too {how}", "regret")) in cited
    cited = numbers_near(STOPPING, "better than the last checkpoint in")
    for way in ("noisy validation", "noise_rate", "ζ"):
        better = sum(pool[way]["regret"] < pool["last checkpoint"]["regret"] for pool in pools)
        assert str(better) in cited
    assert str(len(pools)) in cited


def test_figures_on_stopping_match_the_networks_that_learn() -> None:
    path = ROOT / "docs" / "results" / "stopping-medium.json"
    pools = json.loads(path.read_text(encoding="utf-8"))["pools"].values()
    cited = numbers_near(STOPPING, "pools of networks that learn")
    for way in ("last checkpoint", "noisy validation", "noise_rate", "ζ"):
        assert points(fmean(pool[way]["regret"] for pool in pools)) in cited, way


def test_figures_on_estimates_match_their_study() -> None:
    found = find_study("estimated-accuracy").finding(
        json.loads((ROOT / "docs" / "results" / "estimated-accuracy.json").read_text())
    )
    section = SELECTION.partition("### How good the estimate is\n")[2].partition("\n#")[0]
    cited = re.findall(r"\d+(?:\.\d+)?", section)
    for purpose in ("for judging", "that came later"):
        (told,) = re.findall(rf"On \d+ pools {purpose}, .*?(?=On \d+ pools|$)", found)
        assert set(re.findall(r"\d+(?:\.\d+)?", told)) <= {*cited, "95"}
    error = re.search(r"by ([\d.]+) %", found)
    assert error is not None
    assert error[1] in cited
    assert error[1] in numbers_near(README, "off by")


def test_figures_on_intervals_match_their_study() -> None:
    found = find_study("estimated-accuracy").finding(
        json.loads((ROOT / "docs" / "results" / "estimated-accuracy-medium.json").read_text())
    )
    (told,) = re.findall(r"interval contains .*? of one run alone", found)
    counts = re.findall(r"\d+ of \d+", told)
    assert len(counts) == 3
    assert all(count in " ".join(SELECTION.split()) for count in counts)
    shares = re.search(r"mean confidence is ([\d.]+ %), and ([\d.]+ %)", found)
    assert shares is not None
    pools = counts[0].rpartition(" ")[2]
    assert table_row(SELECTION, f"{pools} of networks that learn") == [*counts, *shares.groups()]
    assert counts[-1] in " ".join(README.split())


def test_figures_on_one_run_without_a_holdout_match_the_leaderboard() -> None:
    rows = ("filter, one run alone", "highest training accuracy", "last checkpoint", "before-rise")
    cited = numbers_near(SELECTION, "one run and no holdout")
    for group in ("chosen", "judged", "fresh"):
        assert {cost(group, row, "regret") for row in rows} <= set(cited)


RULES = {
    "`auto` = `posterior`: several runs, given labels": "auto",
    "`auto`, one run alone: `posterior` by its neighbors": "auto, one run alone",
    "`noisy-validation`, same labels": "noisy validation, same labels",
    "`noisy-validation`, 256 labels": "noisy validation, n = 256",
    "`noisy-validation+susceptibility`": "noisy validation, then lowest ζ",
    "`consensus`": "consensus",
    "`noise-rate`, told the rate": "share of right labels",
    "`filter`, one run (= `auto` without a holdout)": "filter, one run alone",
    "`last`": "last checkpoint",
    "`before-rise`": "before-rise",
    "`regions`": "regions (the paper's rule)",
    "`staged` (= `auto`, several runs without a holdout)": "staged",
}
COLUMNS = ("fresh", "judged", "chosen")
STOP_RULES = {
    "`StopRule()`, by validation": "noisy validation",
    "`StopRule(noise_rate=…)`": "noise_rate",
    '`StopRule(column="susceptibility")`': "ζ",
}


def test_figures_on_the_cost_of_rules_match_leaderboard_and_stopping() -> None:
    costs = SELECTION[SELECTION.index("| per run / across runs |") :]
    for rule, selector in RULES.items():
        cells = [
            " / ".join(
                value
                for measure in ("regret", "pool")
                if (value := cost(group, selector, measure)) != NONE
            )
            for group in COLUMNS
        ]
        assert table_row(costs, rule) == cells, rule
    for rule, way in STOP_RULES.items():
        means = [fmean(STOPS[pool][way]["regret"] for pool in BOARD["groups"][g]) for g in COLUMNS]
        assert table_row(costs, rule) == [points(mean) for mean in means], rule
    counts = [str(len(BOARD["groups"][group])) for group in COLUMNS]
    assert re.findall(r"\d+", " ".join(table_row(costs, "per run / across runs"))) == counts


def test_the_citation_credits_the_paper_and_related_work_of_the_posterior() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the group `docs` brings")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == rote.__version__
    newest = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    if not newest[1].startswith("Unreleased"):
        assert newest[1].startswith(f"{cited['version']}, {cited['date-released']}")
    paper, *related = cited["references"]
    assert paper["title"] == "Leveraging Unlabeled Data to Track Memorization"
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Forouzesh", "Sedghi", "Thiran"]
    first = {work["authors"][0]["family-names"] for work in related}
    assert first == {"Dawid", "Parisi", "Goh", "Angelopoulos", "Jiang", "Bahri", "Zhu", "Yao",
                     "Varadhan"}  # fmt: skip
    assert [name for name in first if name not in SELECTION] == []


def test_the_tests_above_can_fail() -> None:
    page = "| a | 1.0 | 2.0 |\n\nSome words: 3 of\n4.5.\n\n- Other words, 5."
    assert table_row(page, "a") == ["1.0", "2.0"]
    assert numbers_near(page, "Some words: 3 of 4.5") == ["3", "4.5"]
    assert numbers_near(page, "Other") == ["5"]
    with pytest.raises(ValueError, match="not enough values"):
        table_row(page, "b")


@pytest.mark.parametrize(
    ("label", "way"),
    [
        ("estimate, then `auto` among all trials", "estimate + auto"),
        ("noisy validation, then `auto` among all trials", "noisy validation + auto"),
        ("estimate, best trial alone", "estimate"),
        ("noisy validation, best trial alone", "noisy validation"),
        ("training accuracy", "training accuracy"),
        ("ζ", "ζ"),
    ],
)
def test_figures_on_searches_match_the_study_of_tuning(label: str, way: str) -> None:
    names = ("digits-tuning-0", "mnist-tuning-0", "fashion-tuning-0")
    found = [TUNED[name]["ways"][way] for name in names]
    told = [f"{points(one['tested'])} ± {points(one['error'])}" for one in found]
    assert table_row(TUNING, label) == told


def test_the_comparison_with_cleanlab_is_what_its_study_says() -> None:
    page = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    study = json.loads((ROOT / "docs" / "results" / "label-errors.json").read_text())
    judged = [found["methods"] for found in study["sets"].values() if found["is_judged"]]
    (strong,) = (found for name, found in study["foreign"].items() if "aggre" in name)
    for sets, digits in ((judged, 3), ([strong["methods"]], 4)):
        ours = fmean(found["rote, 5 folds"]["auroc"] for found in sets)
        names = ("cleanlab, self-confidence", "cleanlab, normalized margin")
        theirs = max(fmean(found[name]["auroc"] for found in sets) for name in names)
        cells = [f"AUROC {value:.{digits}f}".replace(" 0.", " .") for value in (ours, theirs)]
        assert f"| {cells[0]} | {cells[1]} |" in page
    assert f"[{len(judged)} sets](results/label-errors.md)" in page


def test_the_text_on_dawid_skene_agrees_with_the_leaderboard() -> None:
    rows = [(name, pool["rows"]) for name, pool in BOARD["pools"].items()]
    by_data: dict[str, list[float]] = {}
    for name, row in rows:
        gap = row["posterior"]["regret"][0] - row["Dawid–Skene"]["regret"][0]
        by_data.setdefault(name.rpartition("-")[0], []).append(100 * gap)
    gaps = [fmean(values) for values in by_data.values()]
    high = [
        100 * (row["Dawid–Skene"]["at_pick"][0] - row["Dawid–Skene"]["at_pick"][1])
        for _, row in rows
    ]
    error = stdev(gaps) / len(gaps) ** 0.5
    told = " ".join(SELECTION.split())
    assert (
        f"over {len(gaps)} data sets it loses {fmean(gaps):.2f} ± {error:.2f} points less" in told
    )
    assert f"is {fmean(high):.0f} points too high on average and {max(high):.0f} at worst" in told
    groups = [BOARD["means"][group]["Dawid–Skene"] for group in ("fresh", "judged", "chosen")]
    cells = [f"{points(row['regret'][0])} / {points(row['pool'][0])}" for row in groups]
    assert (
        table_row(SELECTION, "`dawid-skene`: the same, but its estimates cannot be used") == cells
    )
