"""Figures that README and docs cite are those that their commands have written."""

import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import rote
from rote.studies import find_study

ROOT = Path(__file__).parents[2]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
PROBE = json.loads((ROOT / "benchmarks" / "probe.json").read_text())["results"]
BOARD = json.loads((ROOT / "docs" / "results" / "leaderboard.json").read_text())
MEANS = BOARD["means"]["judged"]


def points(row: dict[str, Any], measure: str = "regret") -> str:
    return f"{100 * row[measure][0]:.1f}"


def numbers(pattern: str) -> tuple[str, ...]:
    found = re.search(pattern, README)
    assert found, pattern
    return found.groups()


def test_what_a_probe_costs_is_what_make_bench_has_measured() -> None:
    cited = numbers(r"a probe costs ([\d.]+) training steps of ResNet18 \(in plain NCHW ([\d.]+)\)")
    measured = [PROBE[name]["probe_over_step"] for name in ("resnet18", "resnet18_nchw")]
    assert cited == tuple(f"{ratio:.2f}" for ratio in measured)
    assert PROBE["cnn"]["epoch_with_probe_over_without"] < 1.01


@pytest.mark.parametrize(
    ("words", "selectors"),
    [
        ("rote's verdict; of one run alone", ("auto", "auto, one run alone")),
        (
            "256 noisy validation labels; consensus, no labels",
            ("noisy validation, n = 256", "consensus"),
        ),
        (
            "the last checkpoint; the paper's regions",
            ("last checkpoint", "regions (the paper's rule)"),
        ),
        (
            "LabelWave; GWA; lowest ζ: it gauges, it does not select",
            ("LabelWave", "GWA", "lowest ζ"),
        ),
    ],
)
def test_regrets_are_those_of_the_leaderboard(words: str, selectors: tuple[str, ...]) -> None:
    def cell(row: dict[str, Any]) -> str:
        return points(row) + (f" ({points(row, 'pool')})" if "pool" in row else "")

    cells = [
        "; ".join(cell(BOARD["means"][group][selector]) for selector in selectors)
        for group in ("fresh", "judged")
    ]
    assert f"| {words} | {' | '.join(cells)} |" in README.replace("**", "")
    groups = BOARD["groups"]
    assert f"{len(groups['fresh'])} fresh sets | {len(groups['judged'])} earlier sets" in README


def test_regrets_with_nothing_held_out_are_those_of_the_leaderboard() -> None:
    by_zeta = points(MEANS["filter, one run alone"])
    assert numbers(r"one run alone ([\d.]+) points, hardly better") == (by_zeta,)
    assert float(by_zeta) < float(points(MEANS["last checkpoint"])) < float(by_zeta) + 0.5
    among = numbers(r"among runs ([\d.]+), which is better")
    assert among == (points(MEANS["staged"], "pool"),)
    assert float(among[0]) < float(points(MEANS["last checkpoint"], "pool"))


def test_where_the_verdict_loses_is_said() -> None:
    rules, pair = BOARD["pools"]["youtube-0"]["rows"], BOARD["pools"]["mnist-pair-1"]["rows"]
    cited = numbers(r"\(the last checkpoint ([\d.]+), the verdict ([\d.]+)\)")
    assert cited == (points(rules["last checkpoint"]), points(rules["auto"]))
    cited = numbers(r"\(512 noisy labels ([\d.]+), the verdict ([\d.]+)\)")
    assert cited == (points(pair["noisy validation, n = 512"]), points(pair["auto"]))
    human = [BOARD["pools"][name]["rows"] for name in BOARD["groups"]["judged"] if "10n" in name]
    assert len(human) == 2
    for rows in human:
        assert rows["noisy validation, n = 256"]["pool"][0] < rows["auto"]["pool"][0]
    assert len(BOARD["groups"]["judged"]) == 10
    assert {BOARD["pools"][name]["runs"] for name in BOARD["groups"]["judged"]} == {30}


def test_what_stopping_is_worth_is_what_its_study_says() -> None:
    pools = json.loads((ROOT / "docs" / "results" / "stopping.json").read_text())["pools"].values()
    page = (ROOT / "docs" / "stopping.md").read_text(encoding="utf-8")

    def mean(way: str, key: str, scale: float = 1) -> str:
        value = scale * fmean(pool[way][key] for pool in pools)
        return f"{value:.1f}" if scale > 1 else f"{value:.0f}"

    rows = {"nothing: the last checkpoint": "last checkpoint", "noisy validation": None, "ζ": None}
    for label, way in (rows | {"`noise_rate`": "noise_rate"}).items():
        cells = mean(way or label, "regret", 100), mean(way or label, "stop")
        assert f"| {label} | {cells[0]} | {cells[1]} |" in page.replace("**", "")
    off = [f"noise_rate 0.1 too {how}" for how in ("high", "low")]
    assert " · ".join(mean(way, "regret", 100) for way in off) in page
    better = {
        way: sum(pool[way]["regret"] < pool["last checkpoint"]["regret"] for pool in pools)
        for way in ("noisy validation", "noise_rate", "ζ")
    }
    assert (
        f"in {better['noisy validation']} of {len(pools)} pools, `noise_rate` in "
        f"{better['noise_rate']}, ζ in {better['ζ']}."
    ) in page


def test_how_good_estimates_are_is_what_their_study_says() -> None:
    found = find_study("estimated-accuracy").finding(
        json.loads((ROOT / "docs" / "results" / "estimated-accuracy.json").read_text())
    )
    over_all = re.search(r"Over (\d+) pools .* by ([\d.]+) % .*bias ([\d.]+) %", found)
    assert over_all, found
    pools, error, bias = over_all.groups()
    page = " ".join((ROOT / "docs" / "selection.md").read_text(encoding="utf-8").split())
    assert f"off by {error} points on average over {pools} pools, with a bias of {bias} " in page
    held = {}
    for purpose in ("for judging", "that came later"):
        told = re.search(
            rf"On \d+ pools {purpose}, [^.]*?in (\d+) of (\d+) among all runs, (\d+ of \d+) among "
            r"4 runs, (\d+ of \d+) of one run alone; confidence is ([\d.]+ %) on average, and "
            r"([\d.]+ %) of the picks",
            found,
        )
        assert told, found
        *held[purpose], few, alone, sure, near = told.groups()
        among = " of ".join(held[purpose])
        assert f"in {among} among all runs, {few} among 4 runs and {alone} of one run alone" in page
        assert f"confidence is {sure} on average, and {near} of" in page
    assert numbers(r"off by ([\d.]+) points on average, and the 95 % interval") == (error,)
    both = tuple(str(sum(map(int, part))) for part in zip(*held.values(), strict=True))
    assert numbers(r"holds the truth in (\d+) of (\d+) pools") == both
    assert numbers(r"of one fresh run alone only in (\d+ of \d+)") == (alone,)


def test_what_one_run_costs_with_nothing_held_out_is_what_the_leaderboard_says() -> None:
    page = " ".join((ROOT / "docs" / "selection.md").read_text(encoding="utf-8").split())
    rows = ("filter, one run alone", "highest training accuracy", "last checkpoint", "before-rise")
    chosen, judged, fresh = (
        [points(BOARD["means"][group][row]) for row in rows]
        for group in ("chosen", "judged", "fresh")
    )
    assert (
        f"`filter` cost {chosen[0]} points per run, the highest training accuracy {chosen[1]}, the "
        f"last checkpoint {chosen[2]}, `before-rise` {chosen[3]}; on those for judging "
        f"{judged[0]}, {judged[1]}, {judged[2]} and {judged[3]}; on fresh ones {fresh[0]}, "
        f"{fresh[1]}, {fresh[2]} and {fresh[3]}."
    ) in page


RULES = {
    "`auto` = `posterior`: several runs, given labels": "auto",
    "`auto`, one run alone: `posterior` by its neighbors": "auto, one run alone",
    "`noisy-validation`, 256 labels": "noisy validation, n = 256",
    "`noisy-validation+susceptibility`": "noisy validation, then lowest ζ",
    "`consensus`": "consensus",
    "`noise-rate`, told the rate": "share of right labels",
    "`filter`, one run (= `auto`, nothing held out)": "filter, one run alone",
    "`last`": "last checkpoint",
    "`before-rise`": "before-rise",
    "`regions`": "regions (the paper's rule)",
    "`staged` (= `auto`, several runs, nothing held out)": "staged",
}
COLUMNS = ("fresh", "judged", "chosen")
STOPS = {
    "`StopRule()`, by validation": "noisy validation",
    "`StopRule(noise_rate=…)`": "noise_rate",
    '`StopRule(column="susceptibility")`': "ζ",
}


def test_what_rules_cost_is_what_leaderboard_and_stopping_say() -> None:
    page = (ROOT / "docs" / "selection.md").read_text(encoding="utf-8").replace("**", "")
    stopping = json.loads((ROOT / "docs" / "results" / "stopping.json").read_text())["pools"]
    groups = BOARD["groups"]

    def cell(row: dict[str, Any]) -> str:
        picks = [points(row, "pool")] if "pool" in row else []
        return " / ".join([points(row), *picks])

    for rule, selector in RULES.items():
        cells = [cell(BOARD["means"][group][selector]) for group in COLUMNS]
        assert f"| {rule} | {' | '.join(cells)} |" in page
    for rule, way in STOPS.items():
        means = [
            f"{100 * fmean(stopping[pool][way]['regret'] for pool in groups[group]):.1f}"
            for group in COLUMNS
        ]
        assert f"| {rule} | {' | '.join(means)} |" in page
    counts = [len(groups[group]) for group in COLUMNS]
    heading = "| {} fresh pools | {} pools for judging | {} pools for choosing |"
    assert heading.format(*counts) in page


def test_the_citation_credits_the_paper_and_the_kin_of_the_posterior() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the extra `docs` brings")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == rote.__version__
    paper, *kin = cited["references"]
    assert paper["title"] == "Leveraging Unlabeled Data to Track Memorization"
    names = [author["family-names"] for author in paper["authors"]]
    assert names == ["Forouzesh", "Sedghi", "Thiran"]
    first = {work["authors"][0]["family-names"] for work in kin}
    page = (ROOT / "docs" / "selection.md").read_text(encoding="utf-8")
    credited = page[page.index("Kin: ") :].split("\n\n")[0]
    assert first == {"Dawid", "Parisi", "Goh", "Angelopoulos", "Jiang", "Bahri", "Zhu", "Yao",
                     "Varadhan"}  # fmt: skip
    assert all(name in credited for name in first)
