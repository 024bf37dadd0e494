"""The page as people meet it, in a real browser: what it shows."""

import re
from pathlib import Path

import numpy as np
import pytest

from rote.reporting.contents import contents_of
from rote.reporting.palette import DARK, LIGHT
from rote.selection import select
from rote.selection.candidates import Candidates, candidates_of
from rote.store.table import read_table
from tests.reporting.conftest import Open, Page, Visit
from tests.reporting.stores import STORES


def checkpoints(path: Path) -> Candidates:
    return candidates_of(read_table(path.with_suffix("")), "susceptibility")


def colour(visit: Visit, selector: str, what: str) -> str:
    found = visit.page.eval_on_selector(selector, f"element => getComputedStyle(element)['{what}']")
    red, green, blue = map(int, re.findall(r"\d+", found)[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"


ALIKE = {"large", "coarse", "decades", "turned", "metrics"}
"""Stores that have the charts of others."""


@pytest.mark.parametrize("name", [name for name in STORES if name not in ALIKE])
def test_every_chart_is_drawn_and_nothing_is_complained_about(
    page: Page, visit: Open, name: str
) -> None:
    opened = visit(page(name))
    charts = opened.page.query_selector_all(".chart")
    assert len(charts) == {"untold": 3, "bare": 1}.get(name, 6)
    for chart in charts:
        drawn = chart.query_selector_all(
            "svg .mark-symbol path, svg .mark-line path, svg .mark-rect path"
        )
        assert len(drawn) > 0


def test_a_point_for_every_checkpoint_and_a_line_for_every_run(page: Page, visit: Open) -> None:
    opened = visit(page("gaps"))
    candidates = checkpoints(page("gaps"))
    known = np.isfinite(candidates.susceptibility)
    assert 0 < known.sum() < len(known)
    # The rings around picks are symbols too, of a mark of their own.
    sizes = opened.page.eval_on_selector_all(
        "#chart-regions .mark-symbol", "marks => marks.map(mark => mark.children.length)"
    )
    assert known.sum() in sizes
    lines = opened.page.eval_on_selector_all(
        "#chart-noisy .mark-line path", "paths => paths.length"
    )
    assert lines == candidates.num_runs + 1  # the run of the pick is drawn again, in blue
    # A line that goes on where ζ is not known would have one move only.
    paths = opened.page.eval_on_selector_all(
        "#chart-zeta .mark-line path", "paths => paths.map(path => path.getAttribute('d'))"
    )
    assert max(path.count("M") for path in paths) > 1


def test_the_verdict_is_what_select_says(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    selection = select(page("usual").with_suffix(""), "staged")
    title = opened.text("h1")
    assert title == f"Keep step {selection.pick.step} of {selection.pick.run}"
    words = opened.text("#verdict")
    for reason in selection.reasons[1:]:
        assert reason in words
    better = contents_of(page("usual").with_suffix("")).verdict.better
    assert better
    for outcome in better:
        assert f"{outcome.rule} ({outcome.test_accuracy:.1%})" in words


@pytest.mark.parametrize("name", ["usual", "evil", "untold", "bare", "single"])
@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_screen_has_no_horizontal_scroll(
    page: Page, visit: Open, name: str, width: int
) -> None:
    opened = visit(page(name), width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    widths = opened.page.eval_on_selector_all(
        ".chart svg", "charts => charts.map(c => c.getBoundingClientRect().width)"
    )
    assert all(200 < found <= width for found in widths)


@pytest.mark.parametrize(("colours", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_colours_follow_the_system_the_button_and_paper(
    page: Page, visit: Open, colours: str, palette: dict[str, str]
) -> None:
    opened = visit(page("usual"), colours=colours)
    label = "#chart-regions .role-axis-title text"

    def look() -> tuple[str, str]:
        return colour(opened, "body", "backgroundColor"), colour(opened, label, "fill")

    assert look() == (palette["paper"], palette["ink"])
    opened.page.click("#theme")
    other = DARK if palette is LIGHT else LIGHT
    assert look() == (other["paper"], other["ink"])
    opened.page.emulate_media(media="print")
    opened.page.wait_for_function(
        "([label, ink]) => document.querySelector(label).getAttribute('fill') === ink",
        arg=[label, LIGHT["ink"]],
    )
    assert look() == (LIGHT["paper"], LIGHT["ink"])
    assert opened.page.is_hidden(".bar")


def test_what_is_missing_is_said(page: Page, visit: Open) -> None:
    untold = visit(page("untold"))
    assert "No test accuracy is recorded" in untold.text("#verdict")
    assert "is not recorded here" in untold.text("section[aria-labelledby=tracking-title]")
    assert "Mean test" not in untold.text("#region-table")
    bare = visit(page("bare"))
    assert "there are no regions" in bare.text("section[aria-labelledby=regions-title]")
    assert "compares runs" in visit(page("one-run")).text("body")


@pytest.mark.parametrize("name", ["usual", "gaps"])
def test_the_two_filter_charts_stand_side_by_side(page: Page, visit: Open, name: str) -> None:
    opened = visit(page(name), width=768)
    boxes = [opened.page.locator(f"#chart-{which}").bounding_box() for which in ("before", "after")]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    captions = opened.page.eval_on_selector_all(
        ".pair figcaption", "captions => captions.map(c => c.getBoundingClientRect().top)"
    )
    assert captions[0] == captions[1]


def test_names_of_rules_stay_on_the_charts_and_apart(page: Page, visit: Open) -> None:
    for name in ("single", "usual", "first-step"):
        opened = visit(page(name))
        for chart in ("regions", "sensitivity"):
            frame = opened.page.locator(f"#chart-{chart} svg").bounding_box()
            boxes = opened.page.eval_on_selector_all(
                f"#chart-{chart} .mark-text.role-mark text",
                """texts => texts
                    .filter(text => /^(keep|staged|regions)/.test(text.textContent))
                    .map(text => text.getBoundingClientRect().toJSON())""",
            )
            places = sorted({(b["left"], b["top"], b["right"], b["bottom"]) for b in boxes})
            assert places
            for left, top, right, bottom in places:
                assert frame["x"] <= left
                assert right <= frame["x"] + frame["width"]
                assert frame["y"] <= top
                assert bottom <= frame["y"] + frame["height"]
            if chart == "sensitivity":
                assert len({(left, top) for left, top, _, _ in places}) == len(places)
