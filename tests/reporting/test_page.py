"""The page as people meet it, in a real browser: what it shows."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rote.reporting import report
from rote.reporting.contents import read_contents
from rote.reporting.palette import DARK, LIGHT
from rote.selection import Candidates, agreement, make_candidates, select
from rote.store import read_table
from tests.reporting.conftest import Open, Page, Visit
from tests.reporting.stores import STORES, write_store
from tests.reporting.test_palette import contrast

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]


def checkpoints(path: Path) -> Candidates:
    return make_candidates(read_table(path.with_suffix("")), "susceptibility")


def color(visit: Visit, selector: str, what: str) -> str:
    found = visit.page.eval_on_selector(selector, f"element => getComputedStyle(element)['{what}']")
    red, green, blue = map(int, re.findall(r"\d+", found)[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"


ALIKE = {"large", "coarse", "decades", "turned", "metrics", "percent"}
"""Stores that have the charts of others."""


@pytest.mark.parametrize("name", [name for name in STORES if name not in ALIKE])
def test_every_chart_is_drawn_without_console_errors(page: Page, visit: Open, name: str) -> None:
    opened = visit(page(name))
    charts = opened.page.query_selector_all(".chart")
    assert len(charts) == {"untold": 5, "bare": 3, "signals": 12, "inherited": 15}.get(name, 8)
    for chart in charts:
        drawn = chart.query_selector_all(
            "svg .mark-symbol path, svg .mark-line path, svg .mark-rect path"
        )
        assert len(drawn) > 0


def test_a_point_for_every_checkpoint_and_a_line_for_every_run(page: Page, visit: Open) -> None:
    opened = visit(page("gaps"))
    candidates = checkpoints(page("gaps"))
    known = np.isfinite(candidates.zeta)
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


def test_the_verdict_of_the_page_equals_that_of_select(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    selection = select(page("usual").with_suffix(""), "staged")
    assert opened.text("h1") == selection.headline
    words = opened.text("#verdict")
    for row in selection.summary.rows:
        assert row.label in words
        assert row.value.replace("-", "−") in words
    for part in selection.explanation.sections:
        for sentence in part.sentences:
            assert sentence.replace("`", "") in words
    command = f"rote select {page('usual').with_suffix('')} --rule staged"
    assert command in opened.text("#same-pick")
    better = read_contents(page("usual").with_suffix(""), rule="staged").verdict.better
    assert better
    for outcome in better:
        rules = opened.text("section[aria-labelledby=rules-title]")
        assert f"{outcome.rule} ({outcome.test_accuracy:.1%})" in rules


@pytest.mark.parametrize("name", ["usual", "evil", "untold", "bare", "single"])
@pytest.mark.parametrize("width", [360, pytest.param(768, marks=pytest.mark.full)])
def test_a_narrow_screen_has_no_horizontal_scroll(
    page: Page, visit: Open, name: str, width: int
) -> None:
    opened = visit(page(name), width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    widths = opened.page.eval_on_selector_all(
        ".chart svg", "charts => charts.map(c => c.getBoundingClientRect().width)"
    )
    assert all(200 < found <= width for found in widths)


ROOM = """boxes => boxes.map(box => {
    const right = box.getBoundingClientRect().right;
    const cells = [...box.querySelectorAll("td")];
    const ends = cells.filter(c => c.offsetWidth).map(c => c.getBoundingClientRect().right);
    return [box.previousElementSibling.hidden, Math.max(...ends) <= right + 1];
})"""
"""Of every table: whether it is silent about going on, and whether all of it is in sight."""


@pytest.mark.parametrize("width", [320, 390])
def test_the_important_numbers_are_in_sight_on_a_phone(page: Page, visit: Open, width: int) -> None:
    opened = visit(page("usual"), width=width)
    runs, regions, rules = opened.page.eval_on_selector_all(".scroll", ROOM)
    assert regions == rules == [True, True]
    assert runs == [False, False]
    assert opened.page.is_visible(".sideways >> nth=0")
    labels = opened.page.eval_on_selector_all(
        "#rules-table tr.first td[data-label]",
        "cells => cells.map(c => getComputedStyle(c, '::before').content)",
    )
    assert labels == ['"Step"', '"ζ"', '"Train"', '"Test"', '"Gap"']
    opened.page.set_viewport_size({"width": 1280, "height": 900})
    opened.page.wait_for_function("document.querySelectorAll('.sideways[hidden]').length === 3")


def test_a_table_that_is_cut_on_a_wide_screen_says_so(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    assert opened.page.eval_on_selector_all(".scroll", ROOM) == [[True, True]] * 3
    opened.page.evaluate(
        """() => {
            for (const row of document.querySelectorAll("#runs-table tr"))
                for (let i = 0; i < 8; i += 1) row.insertCell().textContent = "a long setting";
        }"""
    )
    opened.page.wait_for_selector("section[aria-labelledby=runs-title] .sideways:not([hidden])")


def test_accuracies_in_percent_are_shown_as_they_are(page: Page, visit: Open) -> None:
    opened = visit(page("percent"))
    pick = select(page("percent").with_suffix(""), "staged").pick
    assert pick.train_accuracy is not None
    assert pick.train_accuracy > 1
    assert f"Test accuracy{pick.test_accuracy:.4g}" in opened.text(".facts").replace("\n", "")
    assert "100" in opened.text(".careful")
    opened.page.eval_on_selector_all(
        "#verdict .careful, .why", "all => all.forEach((element) => element.remove())"
    )
    text = opened.page.evaluate("document.body.innerText") + "".join(
        opened.page.eval_on_selector_all("svg text", "all => all.map(t => t.textContent + ' ')")
    )
    assert not re.search(r"\d{3,}(\.\d+)?%", text.replace("100%", "").replace(",", ""))
    gaps = opened.page.eval_on_selector_all(".gap", "all => all.map(g => Number(g.textContent))")
    assert 0 < max(gaps) < 100


@pytest.mark.parametrize(("colors", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_colors_follow_the_system_the_button_and_paper(
    page: Page, visit: Open, colors: str, palette: dict[str, str]
) -> None:
    opened = visit(page("usual"), colors=colors)
    label = "#chart-regions .role-axis-title text"

    def look() -> tuple[str, str]:
        return color(opened, "body", "backgroundColor"), color(opened, label, "fill")

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


def test_the_text_says_which_correlation_it_means(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    found = agreement(page("usual").with_suffix(""))
    words = opened.text("section[aria-labelledby=filter-title] .lead").replace("−", "-")
    for name, before, after in (
        ("Pearson’s r goes", found.train_test_pearson, found.filtered_pearson),
        ("Kendall’s τ", found.train_test_kendall, found.filtered_kendall),
    ):
        assert f"{name} from {before.value:.2f} to {after.value:.2f}" in words


def test_the_command_for_the_same_pick_is_short(page: Page, tmp_path: Path) -> None:
    store = page("usual").with_suffix("")
    runs = [store / str(run) for run in range(6)]
    assert len(" ".join(map(str, runs))) > 160
    assert read_contents(runs).same_pick == f"rote select {store}"  # all that is there
    assert read_contents(runs[:2]).same_pick == f"rote select {runs[0]} {runs[1]}"
    told = read_contents([*runs[:5], *runs[:5]], rule="staged").same_pick
    assert told == "rote select RUNS --rule staged # RUNS: the directories of these runs"
    report(runs, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count(f"rote select {store}</bdi>") == 2


def test_missing_parts_are_explained(page: Page, visit: Open) -> None:
    untold = visit(page("untold"))
    rules = untold.text("section[aria-labelledby=rules-title]")
    assert "No test accuracy is recorded" in rules
    assert "Mean test" not in untold.text("#region-table")
    untold.end()
    bare = visit(page("bare"))
    assert bare.page.locator("#chart-regions").count() == 0
    assert "staged" in bare.text("#inapplicable")
    assert "Expected" not in bare.text("main")
    bare.end()
    assert "compares runs" in visit(page("one-run")).text("body")


def test_points_are_brighter_on_dark_paper(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    fills = "marks => [...marks[0].children].map(point => point.getAttribute('fill'))"

    def weakest() -> float:
        found = opened.page.eval_on_selector_all("#chart-regions .mark-symbol", fills)
        assert len(set(found)) > 10
        shares = [map(int, re.findall(r"\d+", fill)) for fill in found]
        return min(contrast("#" + bytes(share).hex(), DARK["paper"]) for share in shares)

    assert weakest() < 3
    opened.page.click("#theme")
    assert weakest() > 3.5


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


def test_names_of_rules_fit_on_the_charts_without_overlap(page: Page, visit: Open) -> None:
    for name in ("single", "usual", "first-step", "one-run"):
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
            assert len({(left, top) for left, top, _, _ in places}) == len(places)
        opened.end()


def test_every_chart_has_a_sentence_without_javascript(page: Page, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(page("usual").as_uri())
    charts = opened.locator(".chart")
    assert charts.count() == 8
    opened.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
    for chart in charts.all():
        said = chart.evaluate("element => getComputedStyle(element, '::before').content")
        assert "This chart needs JavaScript" in said
        assert chart.bounding_box()["height"] < 100  # no blank where it would be
    assert not opened.is_visible("#chosen-run")  # it would do nothing
    context.close()


def test_no_menu_is_shown_for_a_single_choice(page: Page, visit: Open) -> None:
    several = visit(page("usual"))
    assert several.page.locator("#chosen-run option").count() == 7
    several.end()
    opened = visit(page("one-run"))
    assert opened.page.locator("#chosen-run").count() == 0
    opened.page.click("#runs-table button.run")
    assert opened.text("tr.chosen th") == "run-0"


def test_the_paper_is_linked_and_not_loaded(page: Page, visit: Open) -> None:
    link = visit(page("usual")).page.locator(".provenance a")
    assert link.get_attribute("href") == "https://openreview.net/forum?id=ORp91sAbzI"
    assert "Leveraging Unlabeled Data to Track Memorization" in link.text_content()


def test_scroll_shadow_of_a_table_does_not_cover_digits(page: Page, visit: Open) -> None:
    opened = visit(page("usual"), width=390)
    table = opened.page.locator(".scroll").nth(0)
    assert "beyond" in table.get_attribute("class")
    assert table.evaluate("box => getComputedStyle(box).backgroundImage") == "none"
    inside = "box => box.getBoundingClientRect().right - box.clientLeft - box.clientWidth"
    assert table.evaluate(inside + " - box.getBoundingClientRect().left") == 3  # its own place
    table.evaluate("box => box.scrollTo(box.scrollWidth, 0)")
    opened.page.wait_for_selector(".scroll.before:not(.beyond)")


WORDS = r"""() => [...document.querySelectorAll(".scroll td, .scroll thead th")].flatMap(cell => {
    const broken = [];
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const words = cell.tagName === "TD" ? /[\w.%−]+/gu : /\w+/gu; // heads end lines at dots
        for (const word of walker.currentNode.data.matchAll(words)) {
            const range = document.createRange();
            range.setStart(walker.currentNode, word.index);
            range.setEnd(walker.currentNode, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map(box => box.top)).size > 1)
                broken.push(word[0]);
        }
    }
    return broken;
})"""
"""The words in tables whose letters stand in two lines."""


def test_no_number_or_word_of_a_table_is_broken_on_paper(visit: Open, tmp_path: Path) -> None:
    store = write_store(tmp_path / "runs", with_specs=True)
    names = ("name", "options.depth", "options.dropout", "options.width", "schedule", "momentum")
    for at, file in enumerate(sorted(store.glob("*/workload.json"))):
        values = ("exponential", "resnet", "densenet")[at % 3]
        spec = {"architecture": dict.fromkeys(names, f"{values}-{at}")}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"spec": spec}))
    report(store, tmp_path / "page.html", rule="staged")
    opened = visit(tmp_path / "page.html", width=688)  # A4 between its margins
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#runs-table thead th").count() == 14
    assert opened.page.evaluate(WORDS) == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 688
