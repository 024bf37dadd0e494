"""The committed pages, and what they leave out."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rote.errors import InputError
from rote.studies import PAPER, Records, find_study, read_pools, studies, write_figures
from rote.studies.index import write_figure_table
from rote.studies.pool import PRESETS, describe_pool, has_pools
from rote.studies.results import write_result

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("studies")]

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS = sorted(path.stem for path in (DOCS / "results").glob("*.json") if path.stem != "bounds")
MEDIUM = [name.removesuffix("-medium") for name in NUMBERS if name.endswith("-medium")]
COMMITTED = [name for name in NUMBERS if not name.endswith("-medium")]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return Records(tmp_path_factory.mktemp("records"))


COSTLY = ("estimated-accuracy", "leaderboard")
"""Many fits for each of 23 pools: two of them here, all of them by `make test-all`."""

IN_FULL = [
    name
    if name in ("filter", "regions", "tracking")
    else pytest.param(name, marks=pytest.mark.full)
    for name in MEDIUM
]
"""Studies of preset medium: the paper's main figures here, all of them by `make test-all`."""


WITHOUT_POOLS = ("cleaning", "gram-drift", "label-errors")
"""They train networks of their own: tests/studies/test_detection.py and test_gram_drift.py."""


@pytest.mark.parametrize(
    "name", [name for name in COMMITTED if name not in (*COSTLY, *WITHOUT_POOLS)]
)
def test_committed_numbers_are_reproduced(name: str, records: Records) -> None:
    ((_, tables),) = [entry for entry in records.read(find_study(name)) if entry[0] == "small"]
    record = find_study(name).measure(tables)
    assert _leaves(record) == pytest.approx(_leaves(_committed(name)), abs=1e-6)


@pytest.mark.parametrize("name", IN_FULL)
def test_committed_numbers_of_networks_that_learn_are_reproduced(
    name: str, records: Records
) -> None:
    ((_, tables),) = [entry for entry in records.read(find_study(name)) if entry[0] == "medium"]
    assert _leaves(find_study(name).measure(tables)) == pytest.approx(
        _leaves(_committed(f"{name}-medium")), abs=1e-6
    )


@pytest.mark.parametrize("name", COSTLY)
@pytest.mark.parametrize(
    "part", [slice(0, None, 12), pytest.param(slice(None), marks=pytest.mark.full)]
)
def test_committed_numbers_of_pools_are_reproduced(
    name: str, part: slice, records: Records
) -> None:
    ((_, tables),) = [entry for entry in records.read(find_study(name)) if entry[0] == "small"]
    record, committed = find_study(name).measure(tables[part]), _committed(name)
    if len(record["pools"]) < len(committed["pools"]):
        record, committed = record["pools"], committed["pools"]
        committed = {pool: committed[pool] for pool in record}
    assert len(record)
    assert _leaves(record) == pytest.approx(_leaves(committed), abs=1e-6)


def _committed(name: str) -> Any:  # a record is whatever its study measures
    return json.loads((DOCS / "results" / f"{name}.json").read_text())


def _leaves(value: object, name: str = "") -> dict[str, object]:
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, part in parts for k, v in _leaves(part, f"{name}/{key}").items()}
    return {name: value}


def _recorded() -> dict[str, list[tuple[str, dict]]]:  # type: ignore[type-arg]
    return {
        name: [
            *([("medium", _committed(f"{name}-medium"))] if name in MEDIUM else []),
            ("small", _committed(name)),
        ]
        for name in (*COMMITTED, "bounds")
    }


def test_every_figure_has_one_study_a_number_of_its_own_and_a_short_row() -> None:
    shown = [label for study in studies().values() for label in study.paper]
    assert sorted(shown) == sorted(PAPER)
    figures = [int(one.number.split()[1]) for one in PAPER.values() if "Figure" in one.number]
    assert sorted(figures) == list(range(1, 42))
    for row in write_figure_table(_recorded()).splitlines()[2:]:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 7
        assert max(len(cell.split()) for cell in cells) <= 30, row
        assert cells[5] in ("confirmed", "confirmed in part", "not confirmed", "cannot tell", "–")
        assert (cells[3] == "not trained yet") == (cells[5] == "–")


@pytest.mark.parametrize("name", ["figure-5", "Figure 5", "fig:main"])
def test_studies_are_found_by_the_numbers_of_the_paper(name: str) -> None:
    assert find_study(name).name == "regions"
    assert find_study("table-1").name == "validation-size"


def test_the_page_has_the_committed_table_of_figures() -> None:
    """`rote study show --all --out docs/results --index docs/reproduce.md` writes it."""
    assert write_figure_table(_recorded()) in (DOCS / "reproduce.md").read_text()


def test_every_committed_figure_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in (DOCS / "results").glob("*.md"))
    figures = {figure.name for figure in (DOCS / "results").glob("*.svg")}
    assert figures
    assert figures == {name for name in figures if f"]({name})" in pages}


def test_figures_can_be_read_at_700_pixels() -> None:
    widths = {
        figure.name: float(re.findall(r'width="([0-9.]+)"', figure.read_text())[0])
        for figure in (DOCS / "results").glob("*.svg")
    }
    assert {name: width for name, width in widths.items() if width > 700} == {}


@pytest.mark.parametrize("name", [name for name, study in studies().items() if study.paper])
def test_committed_pages_cite_the_paper_date_command_and_cause(name: str) -> None:
    study, page = find_study(name), (DOCS / "results" / f"{name}.md").read_text()
    assert re.search(r"Computed on 20\d\d-\d\d-\d\d\.", page)
    assert f"rote study show {name}" in page
    said = " ".join(page.split())
    parts = ("The paper", "Here", "Why") if study.cause else ("The paper", "Here")
    assert [part for part in parts if f"**{part}.**" in page] == list(parts)
    assert study.cause in said
    assert " ".join(study.finding(_recorded()[name][-1][1]).split()) in said


@pytest.mark.parametrize("name", [name for name in MEDIUM if find_study(name).paper])
def test_pages_of_medium_say_why(name: str) -> None:
    page = (DOCS / "results" / f"{name}-medium.md").read_text()
    cause = find_study(name).cause_at_medium
    assert cause
    assert cause in " ".join(page.split())


def test_a_table_is_written_only_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures: begin -->\nstale row\n<!-- figures: end -->\nafter\n")
    write_figures({}, page)
    text = page.read_text()
    assert text.startswith("before\n<!-- figures: begin -->\n| in the paper |")
    assert text.endswith("|\n<!-- figures: end -->\nafter\n")
    assert "stale row" not in text
    assert "not trained yet" in text
    page.write_text("no lines")
    with pytest.raises(InputError, match="does not have the lines"):
        write_figures({}, page)
    assert page.read_text() == "no lines"


def test_figure_uses_pools_of_its_data_only() -> None:
    found = {name: presets[-1:] for name, presets in _recorded().items()}
    rows = {row.split(" | ")[0]: row for row in write_figure_table(found).splitlines()}
    pools = found["regions"][0][1]["pools"]
    of_mnist = {"pools": {name: pools[name] for name in ("mnist-symmetric-0", "mnist-symmetric-1")}}
    brief = find_study("regions").brief
    assert brief is not None
    assert brief(of_mnist).ours in rows["| Figure 16"]
    assert brief(of_mnist).ours not in rows["| Figure 5"]


def test_figures_find_the_pools_of_medium_that_are_not_trained_yet() -> None:
    pools = {pool.name.removesuffix("-medium-0"): pool for pool in read_pools("medium")}
    main = {"cifar10", "cifar10-18k"}
    expected = {
        "fig:main": main,
        "fig:maincifar100": {"cifar100"},
        "fig:cifar100less": {"cifar100-low"},
        "fig:maintiny": {"tiny-imagenet"},
        "fig:figure1_less_cifar10": {"cifar10-low"},
        "fig:asym": {"cifar10-asymmetric"},
        "fig:clothing1m_3": {"cifar10n-aggre"},
        "fig:noisysel": main | {"cifar10-objectives"},
        "tab:noisyvalsetapp": main | {"cifar10-probe"},
        "fig:mv": main | {"cifar10-networks"},
        "fig:pareto": main | {f"cifar10-{level}" for level in ("low", 20, 30, 40, 80)},
    }
    for label, names in expected.items():
        wants = find_study(PAPER[label].name).wants
        assert wants is not None
        about = {n for n, pool in pools.items() if wants(pool) and PAPER[label].is_about(pool)}
        assert about == names, label


def test_study_without_data_at_a_preset_has_no_picture(tmp_path: Path) -> None:
    written = write_result(find_study("widths"), {"pools": {}}, "medium", tmp_path)
    assert {path.suffix for path in written} == {".md", ".json"}
    assert "![" not in (tmp_path / "widths-medium.md").read_text()


def test_the_index_takes_the_largest_preset_that_has_the_data() -> None:
    small = _recorded()["regions"][-1]
    made = {"pools": {"cifar10-medium-0": small[1]["pools"]["cifar10-symmetric-0"]}}
    rows = write_figure_table({"regions": [("medium", made), small]}).splitlines()
    by_figure = {row.split(" | ")[0]: row for row in rows}
    assert "| medium |" in by_figure["| Figure 5"]
    assert "(results/regions-medium.md)" in by_figure["| Figure 5"]
    assert "| small |" in by_figure["| Figure 16"]
    assert "(results/regions.md)" in by_figure["| Figure 16"]


def test_pools_of_all_presets_have_names_of_their_own() -> None:
    names = [pool.name for preset in PRESETS if has_pools(preset) for pool in read_pools(preset)]
    assert len(names) == len(set(names))


def test_panels_of_a_figure_have_titles_of_their_own() -> None:
    for preset in PRESETS:
        titles = [(pool.group, describe_pool(pool.name)) for pool in read_pools(preset)]
        assert len(titles) == len(set(titles)), preset
    assert describe_pool("svhn-medium-0 (6 of 12 runs)") == "SVHN, 50 % resampled (6 of 12 runs)"
    assert describe_pool("accuracy drop (PMV)") == "accuracy drop (PMV)"


def test_every_study_has_pools_at_preset_small_and_is_committed_or_says_so(
    records: Records,
) -> None:
    for study in studies().values():
        assert study.has("small")
        if study.name not in (*COMMITTED, "bounds"):
            with pytest.raises(InputError, match="no records of study"):
                records.read(study)


def test_the_page_says_how_many_runs_each_preset_has() -> None:
    page = (DOCS / "reproduce.md").read_text()
    for preset in PRESETS:
        runs = sum(len(pool.specs) for pool in read_pools(preset))
        assert re.search(rf"\| `{preset}` \|.*\b{runs:,} runs", page), (preset, runs)


def test_the_page_about_the_theory_has_the_committed_steps() -> None:
    record = json.loads((DOCS / "results" / "one-sample.json").read_text())
    assert find_study("one-sample").text(record) in (DOCS / "theory.md").read_text()
