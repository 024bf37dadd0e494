"""The thresholds of the page, in a real browser: they count as Python counts."""

import re
from pathlib import Path

import pytest

from rote import reporting
from rote.reporting.contents import read_contents
from rote.reporting.page_text import format_number, format_percent
from rote.selection import Candidates, RegionSummary, make_candidates, select
from rote.selection.regions import find_regions, summarize
from rote.store import read_table
from tests.reporting.conftest import Open, Page, Visit
from tests.reporting.crowd import crowd

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]


def checkpoints(path: Path) -> Candidates:
    return make_candidates(read_table(path.with_suffix("")), "susceptibility")


def shown_regions(visit: Visit) -> list[list[str]]:
    rows = visit.page.query_selector_all("#region-table tbody tr")
    return [[cell.text_content() for cell in row.query_selector_all("td")] for row in rows]


def as_shown(regions: tuple[RegionSummary, ...]) -> list[list[str]]:
    def format_percent(value: float | None) -> str:
        return "–" if value is None else f"{value:.1%}"

    return [
        [
            f"{region.count:,}",
            format_percent(region.train_accuracy),
            "–"
            if region.susceptibility is None
            else f"{region.susceptibility:.4g}".replace("-", "−"),
            format_percent(region.test_accuracy),
        ]
        for region in regions
    ]


def move(visit: Visit, slider: str, share: float) -> float:
    """Put a slider somewhere; the threshold that this is."""
    step = visit.page.eval_on_selector(
        f"#{slider}-slider",
        """(slider, share) => {
            const [low, high, step] = [slider.min, slider.max, slider.step].map(Number);
            slider.value = low + Math.round((share * (high - low)) / step) * step;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            return Number(slider.value);
        }""",
        share,
    )
    return float(step)


@pytest.mark.parametrize(
    "name",
    [
        "gaps",
        *(pytest.param(name, marks=pytest.mark.full) for name in ("usual", "decades", "coarse")),
    ],
)
def test_sliders_count_and_average_as_python_does_to_the_last_digit(
    page: Page, visit: Open, name: str
) -> None:
    opened, candidates = visit(page(name)), checkpoints(page(name))
    contents = read_contents(page(name).with_suffix(""))
    for shares in [(0.1, 0.2), (0.01, 0.35), (0.35, 0.4), (0.5, 0.8), (1.0, 0.0), (0.0, 1.0)]:
        thresholds = {
            "susceptibility": move(opened, "zeta", shares[0]) / contents.zeta_axis.unit,
            "train_accuracy": move(opened, "train", shares[1]) / contents.train_axis.unit,
        }
        expected = summarize(candidates, find_regions(candidates, thresholds))
        assert shown_regions(opened) == as_shown(expected)
        assert opened.text("#zeta-value") == f"{thresholds['susceptibility']:.4g}".replace("-", "−")


def test_the_other_threshold_stays_that_of_the_rule(page: Page, visit: Open) -> None:
    opened, candidates = visit(page("usual")), checkpoints(page("usual"))
    contents = read_contents(page("usual").with_suffix(""), rule="staged")
    rules = contents.verdict.selection.thresholds
    assert rules["train_accuracy"] * contents.train_axis.unit % contents.train_axis.step > 0
    at = move(opened, "zeta", 0.3) / contents.zeta_axis.unit
    thresholds = {"susceptibility": at, "train_accuracy": rules["train_accuracy"]}
    expected = summarize(candidates, find_regions(candidates, thresholds))
    assert shown_regions(opened) == as_shown(expected)


NUMBERS = [k / 64 for k in range(-40, 90)] + [k / 1024 for k in range(1, 1024, 7)]
NUMBERS += [
    0.35,
    0.0005,
    12345.0,
    12355.0,
    9999.5,
    1e-5,
    1.2345e-7,
    5e12,
    0.00099995,
    0.0,
    -3.25e-6,
    1.0004,
    1.0005,
    1.0006,
    67.0,
]


def test_numbers_are_written_as_python_writes_them(page: Page, visit: Open) -> None:
    """Halves too: Python goes to the even digit, a browser up."""
    tab = visit(page("usual")).page
    script = (Path(reporting.__file__).parent / "assets" / "numbers.js").read_text("utf-8")
    found = tab.evaluate(
        f"numbers => {{ {script}; return numbers.map(n => [percents(n), digits(n)]) }}", NUMBERS
    )
    assert found == [[format_percent(n), format_number(n)] for n in NUMBERS]
    shares = [n for n in NUMBERS if n <= 1]
    assert [format_percent(n) for n in shares] == [f"{n:.1%}".replace("-", "−") for n in shares]
    assert [format_number(n) for n in NUMBERS] == [f"{n:.4g}".replace("-", "−") for n in NUMBERS]


def test_checkpoints_that_lie_on_a_threshold_are_on_the_side_where_python_puts_them(
    page: Page, visit: Open
) -> None:
    opened, candidates = visit(page("coarse")), checkpoints(page("coarse"))
    contents = read_contents(page("coarse").with_suffix(""), rule="staged")
    ends = contents.zeta_axis, contents.train_axis
    values = candidates.zeta, candidates.values("train_accuracy")
    for index in range(0, len(candidates), 9):
        shares = []
        for axis, known in zip(ends, values, strict=True):
            at = round(known[index] * axis.unit)
            assert at % axis.step == 0  # the slider can stop there
            shares.append((at - axis.first_stop) / (axis.last_stop - axis.first_stop))
        thresholds = {
            "susceptibility": move(opened, "zeta", shares[0]) / contents.zeta_axis.unit,
            "train_accuracy": move(opened, "train", shares[1]) / contents.train_axis.unit,
        }
        assert thresholds["susceptibility"] == candidates.zeta[index]
        assert thresholds["train_accuracy"] == candidates.values("train_accuracy")[index]
        expected = summarize(candidates, find_regions(candidates, thresholds))
        assert shown_regions(opened) == as_shown(expected)


def test_the_lines_move_with_the_sliders(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    places = []
    for share in (0.25, 0.75):
        move(opened, "zeta", share)
        places.append(
            opened.page.eval_on_selector_all(
                "#chart-regions .mark-rule.role-mark line",
                "lines => lines.map(line => line.getAttribute('transform'))",
            )
        )
    assert places[0][0] != places[1][0]  # the upright one
    assert places[0][1] == places[1][1]  # the other


def test_the_thresholds_of_a_rule_give_exactly_its_regions(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    store = page("usual").with_suffix("")
    assert shown_regions(opened) == as_shown(select(store, "staged").regions)
    opened.page.click("[data-preset=regions]")
    assert shown_regions(opened) == as_shown(select(store, "regions").regions)
    assert opened.page.get_attribute("[data-preset=regions]", "aria-pressed") == "true"
    assert opened.page.get_attribute("[data-preset=staged]", "aria-pressed") == "false"


def test_the_page_says_that_the_pick_does_not_move(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    title = opened.text("h1")
    move(opened, "zeta", 0.01)
    move(opened, "train", 0.9)
    assert opened.text("h1") == title
    words = " ".join(opened.text("#unmoved").split())
    assert "The selected checkpoint stays: it is that of rule staged" in words


def test_no_sliders_and_no_errors_without_regions(page: Page, visit: Open, tmp_path: Path) -> None:
    store = page("large").with_suffix("")  # so many that only some are drawn
    reporting.report(store, tmp_path / "page.html", rule="noisy-validation")
    opened = visit(tmp_path / "page.html")
    assert opened.page.locator("input[type=range], #region-table, #chart-regions").count() == 0
    ring = "#chart-zeta canvas, #chart-zeta .mark-symbol path"
    assert opened.page.locator(ring).count() >= 1
    assert opened.text("h1").startswith("Keep step ")


def test_regions_color_points_where_there_is_no_truth(page: Page, visit: Open) -> None:
    opened = visit(page("untold"))
    colors = (
        "marks => [...new Set([...marks[0].children].map(point => point.getAttribute('fill')))]"
    )
    found = opened.page.eval_on_selector_all("#chart-regions .mark-symbol", colors)
    assert len(found) > 1
    move(opened, "zeta", 1.0)
    move(opened, "train", 0.0)  # everything is in Region 1
    assert len(opened.page.eval_on_selector_all("#chart-regions .mark-symbol", colors)) == 1


def test_a_thinned_page_says_so_and_still_counts_everything(page: Page, visit: Open) -> None:
    opened, candidates = visit(page("large")), checkpoints(page("large"))
    assert re.search(r"Charts draw [\d,]+ of 13,000 checkpoints", opened.text("#thinned"))
    assert opened.page.get_attribute("#chart-regions", "data-drawn") == "canvas"
    pixels = opened.page.eval_on_selector(
        "#chart-regions canvas",
        """canvas => new Set(new Uint32Array(canvas.getContext("2d")
            .getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size""",
    )
    assert pixels > 100  # colors of many points
    contents = read_contents(page("large").with_suffix(""), rule="staged")
    thresholds = {
        "susceptibility": move(opened, "zeta", 0.3) / contents.zeta_axis.unit,
        "train_accuracy": move(opened, "train", 0.6) / contents.train_axis.unit,
    }
    expected = summarize(candidates, find_regions(candidates, thresholds))
    assert shown_regions(opened) == as_shown(expected)


def test_sliders_count_all_of_too_many_checkpoints_to_carry(visit: Open, tmp_path: Path) -> None:
    table = crowd()
    reporting.report(table, tmp_path / "page.html", rule="staged")
    opened = visit(tmp_path / "page.html")
    everything, contents = (
        make_candidates(table, "susceptibility"),
        read_contents(table, rule="staged"),
    )
    at = dict(contents.verdict.selection.thresholds)
    at["train_accuracy"] = move(opened, "train", 0.6) / contents.train_axis.unit
    expected = summarize(everything, find_regions(everything, at))  # ζ is still that of the rule
    assert shown_regions(opened) == as_shown(expected)
    at["susceptibility"] = move(opened, "zeta", 0.3) / contents.zeta_axis.unit
    expected = summarize(everything, find_regions(everything, at))
    assert shown_regions(opened) == as_shown(expected)
    opened.page.click("[data-preset=regions]")
    assert shown_regions(opened) == as_shown(select(table, "regions").regions)
    assert opened.page.locator("#runs-table tbody tr").count() == 200
    opened.page.locator("#runs-table button.run").first.click()
    assert opened.page.input_value("#chosen-run") != ""


def test_everything_can_be_reached_and_used_from_the_keyboard(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    reached = []
    for _ in range(60):
        opened.page.keyboard.press("Tab")
        reached.append(
            opened.page.evaluate(
                "(({ id, dataset, className }) => id || dataset.preset || className)"
                "(document.activeElement)"
            )
        )
    for wanted in (
        "chosen-run",
        "theme",
        "zeta-slider",
        "train-slider",
        "regions",
        "run",
        "scroll",
    ):
        assert wanted in reached
    before = shown_regions(opened)
    opened.page.focus("#zeta-slider")
    for _ in range(60):
        opened.page.keyboard.press("ArrowRight")
    assert shown_regions(opened) != before
    assert opened.page.get_attribute("#zeta-slider", "aria-valuetext") == opened.text("#zeta-value")
    unlabeled = opened.page.eval_on_selector_all(
        "input, select, button",
        "all => all.filter(e => !(e.labels?.length || e.textContent.trim() || e.ariaLabel)).length",
    )
    assert unlabeled == 0
