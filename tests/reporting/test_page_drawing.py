"""When charts are drawn, in a real browser: what is in sight first, and all of them on paper."""

import re

import pytest

from rote.reporting.contents import read_contents
from rote.reporting.palette import DARK, LIGHT
from tests.reporting.conftest import Open, Page, Visit

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

HOLD = """
    window.held = [];
    window.requestIdleCallback = (callback) => window.held.push(callback);
"""
"""A browser that is never idle, until it is told to be."""


def drawn(visit: Visit) -> list[str]:
    found = visit.page.eval_on_selector_all(
        ".chart[data-drawn]", "charts => charts.map(chart => chart.id)"
    )
    return [str(name) for name in found]


OPEN = [f"chart-{name}" for name in ("overview", "overview-zeta", "zeta", "noisy", "regions")]
FOLDED = [f"chart-{name}" for name in ("before", "after", "sensitivity")]


def test_charts_below_the_fold_are_drawn_when_idle(page: Page, visit: Open) -> None:
    opened = visit(page("usual"), until="ready", script=HOLD)
    assert drawn(opened) == OPEN[:2]
    assert opened.page.query_selector("html[data-complete]") is None
    release(opened)
    assert drawn(opened) == OPEN
    opened.unfold()
    assert drawn(opened) == OPEN + FOLDED


def release(visit: Visit) -> None:
    visit.page.evaluate(
        "() => { window.requestIdleCallback = setTimeout; held.forEach(callback => callback()) }"
    )
    visit.page.wait_for_selector("html[data-complete]", state="attached")


def test_settings_made_before_a_chart_is_drawn_apply_to_it(page: Page, visit: Open) -> None:
    opened = visit(page("usual"), until="ready", script=HOLD)
    opened.page.click("#theme")
    opened.page.select_option("#chosen-run", label="run-3")
    release(opened)
    opened.unfold()
    fill = "label => document.querySelector(label).getAttribute('fill')"
    assert opened.page.evaluate(fill, "#chart-before .role-axis-title text") == DARK["ink"]
    strokes = opened.page.eval_on_selector_all(
        "#chart-noisy .mark-line path", "paths => paths.map(p => p.getAttribute('stroke'))"
    )
    assert strokes.count(DARK["highlight"]) == 1


def test_sliders_work_before_the_region_chart_is_drawn(page: Page, visit: Open) -> None:
    low = "Object.defineProperty(window, 'innerHeight', { value: 100 });"
    opened = visit(page("usual"), until="ready", script=HOLD + low)
    assert drawn(opened) == []
    opened.page.focus("#zeta-slider")
    opened.page.keyboard.press("Home")
    axis = read_contents(page("usual").with_suffix("")).zeta_axis
    shown = f"{axis.first_stop / axis.unit:.4g}".replace("-", "−")
    assert opened.text("#zeta-value") == shown
    release(opened)
    upright = "#chart-regions .mark-rule.role-mark line"
    moved = opened.page.get_attribute(upright, "transform")
    left = re.match(r"translate\(([-\d.]+),", moved)
    assert left is not None
    assert float(left[1]) < 5


def test_a_page_that_is_printed_at_once_has_every_chart_in_light_colors(
    page: Page, visit: Open
) -> None:
    opened = visit(page("usual"), until="ready", script=HOLD, colors="dark")
    assert drawn(opened) == OPEN[:2]
    opened.page.evaluate(
        """() => addEventListener("beforeprint", () => {
            const titles = document.querySelectorAll(".role-axis-title text");
            window.printed = [...titles].map(title => title.getAttribute("fill"));
        })"""
    )
    paper = opened.page.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert drawn(opened) == OPEN + FOLDED
    assert set(opened.page.evaluate("printed")) == {LIGHT["ink"]}
    release(opened)


def test_print_view_expands_everything_and_hides_controls(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    wide = opened.page.locator("#chart-regions svg").bounding_box()["width"]
    folded = opened.page.locator("details:not([open])").count()
    assert folded > 0
    opened.page.set_viewport_size({"width": 688, "height": 900})
    opened.page.emulate_media(media="print")
    opened.page.wait_for_function("document.querySelectorAll('details:not([open])').length === 0")
    text = opened.page.inner_text("main")
    assert not re.search("click|Move the|Search|Thresholds of", text)
    assert "Resistant: ζ at most" in text
    opened.page.wait_for_function(
        "Number(document.querySelector('#chart-zeta svg').getAttribute('width')) === 688"
    )
    widths = opened.page.eval_on_selector_all(
        ".chart svg", "charts => charts.map(c => Number(c.getAttribute('width')))"
    )
    assert sorted(widths) == [328, 328, *[688] * 6]  # letters keep their size
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 688
    opened.page.emulate_media(media="screen")
    opened.page.set_viewport_size({"width": 1280, "height": 900})
    opened.page.wait_for_function(
        "wide => document.querySelector('#chart-regions svg').getAttribute('width') === wide",
        arg=f"{wide:g}",
    )
    assert opened.page.locator("details:not([open])").count() == folded
