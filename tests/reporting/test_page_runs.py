"""The runs on the page, in a real browser: chosen, pointed at, sorted, searched, only text."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rote.formatting import escape_invisible
from rote.reporting import report
from rote.reporting.contents import read_contents
from rote.reporting.frame import make_title
from rote.reporting.palette import LIGHT
from rote.reporting.write_report import save_figures
from tests.reporting.conftest import Open, Page, Visit
from tests.reporting.stores import EVIL_METRIC, EVIL_NAMES, INHERITED, SCRIPT, STORES, write_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]


def chosen_in_charts(visit: Visit) -> dict[str, int]:
    """How many points of each scatter are not faded."""
    return {
        name: visit.page.eval_on_selector_all(
            f"#chart-{name} .mark-symbol",
            "marks => [...marks[0].children]"
            ".filter(point => Number(point.getAttribute('opacity')) > 0.5).length",
        )
        for name in ("regions", "before")
    }


def test_selected_run_is_highlighted_in_every_chart(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    assert chosen_in_charts(opened) == {"regions": 72, "before": 72}
    opened.page.select_option("#chosen-run", label="run-3")
    assert chosen_in_charts(opened) == {"regions": 12, "before": 12}
    for name in ("zeta", "noisy"):
        colors = opened.page.eval_on_selector_all(
            f"#chart-{name} .mark-line path", "paths => paths.map(p => p.getAttribute('stroke'))"
        )
        assert colors.count(LIGHT["highlight"]) == 1
    assert opened.page.eval_on_selector_all(
        "tr.chosen th", "cells => cells.map(c => c.textContent)"
    ) == ["run-3"]
    opened.page.keyboard.press("Escape")
    assert chosen_in_charts(opened) == {"regions": 72, "before": 72}
    assert opened.page.query_selector("tr.chosen") is None


def test_clicking_a_point_or_a_name_selects_its_run(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    opened.page.locator("#chart-regions .mark-symbol").first.locator("path").nth(30).click(
        force=True
    )
    opened.page.wait_for_selector("tr.chosen", state="attached")
    name = opened.text("tr.chosen th")
    assert chosen_in_charts(opened)["before"] == 12
    assert opened.page.eval_on_selector("#chosen-run", "s => s.selectedOptions[0].text") == name
    other = "run-5" if name != "run-5" else "run-4"
    opened.page.click(f"#runs-table bdi:text-is('{other}')")
    assert opened.text("tr.chosen th") == other
    assert chosen_in_charts(opened) == {"regions": 12, "before": 12}


def test_hostile_names_are_plain_text_in_tooltips(visit: Open, tmp_path: Path) -> None:
    store = write_store(tmp_path / "runs", **STORES["evil"])
    columns = {EVIL_METRIC: {"kind": "signal", "label": "<b>bold</b>"}}
    for file in store.glob("*/run.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"columns": columns}))
    report(store, tmp_path / "page.html", rule="staged")
    opened = visit(tmp_path / "page.html")
    opened.point_at(opened.page.locator("#chart-regions .mark-symbol").first.locator("path").first)
    hint = opened.page.eval_on_selector_all(
        "#hint tr", "rows => rows.map(r => [r.cells[0].textContent, r.cells[1].textContent])"
    )
    shown = dict(hint)
    assert opened.text("#hint caption") in map(escape_invisible, EVIL_NAMES)
    assert {"step", "ζ", "training accuracy", "test accuracy"} <= shown.keys()
    assert opened.page.query_selector("#hint b") is None
    assert "<b>bold</b>" in opened.text("section[aria-labelledby=tracking-title]")
    assert opened.page.query_selector("section[aria-labelledby=tracking-title] b") is None


def column(visit: Visit, index: int) -> list[str]:
    found = visit.page.eval_on_selector_all(
        "#runs-table tbody tr:not([hidden])",
        "(rows, index) => rows.map(row => row.cells[index].dataset.value)",
        index,
    )
    return [str(value) for value in found]


def test_the_table_sorts_by_numbers_and_by_names(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    heads = opened.page.eval_on_selector_all(
        "#runs-table thead th", "heads => heads.map(h => h.textContent.trim())"
    )
    for title in ("Run", "ζ", "Train", "optimizer.lr"):
        index = heads.index(title)
        opened.page.click(f"#runs-table thead th:nth-child({index + 1}) button")
        opened.page.click(f"#runs-table thead th:nth-child({index + 1}) button")
        first = column(opened, index)
        key: Callable[[str], Any] = str if title == "Run" else float
        is_down = (
            opened.page.get_attribute(f"#runs-table thead th:nth-child({index + 1})", "aria-sort")
            == "descending"
        )
        assert first == sorted(first, key=key, reverse=is_down)
        opened.page.click(f"#runs-table thead th:nth-child({index + 1}) button")
        assert column(opened, index) == first[::-1]
        assert len(set(first)) == 6


def test_the_table_is_searched_by_name_and_by_setting(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    opened.page.fill("#search", "RUN-4")
    assert column(opened, 0) == ["run-4"]
    assert opened.text("#found") == "1 of 6 runs"
    opened.page.fill("#search", "0.05 run")
    assert column(opened, 0) == ["run-1"]
    opened.page.fill("#search", "nothing like it")
    assert column(opened, 0) == []
    opened.page.fill("#search", "")
    assert opened.text("#found") == "6 of 6 runs"


def test_names_stay_text(page: Page, visit: Open) -> None:
    opened = visit(page("evil"))
    names = opened.page.eval_on_selector_all(
        "#runs-table tbody th", "cells => cells.map(c => c.textContent)"
    )
    assert sorted(names) == sorted(map(escape_invisible, EVIL_NAMES))
    assert opened.page.query_selector("img") is None
    assert opened.page.eval_on_selector_all("script", "scripts => scripts.length") == 4
    assert opened.page.query_selector(f"option:text-is({SCRIPT!r})") is not None
    opened.page.select_option("#chosen-run", label=escape_invisible(EVIL_NAMES[1]))
    assert chosen_in_charts(opened) == {"regions": 12, "before": 12}
    text = page("evil").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img" not in text


def line_colors(visit: Visit, chart: str) -> list[str]:
    """The colors of lines that have more than one point."""
    found = visit.page.eval_on_selector_all(
        f"#{chart} .mark-line path",
        "paths => paths.filter(p => p.getAttribute('d').includes('L'))"
        ".map(p => p.getAttribute('stroke'))",
    )
    return [str(color) for color in found]


def test_names_like_constructor_do_not_break_charts(page: Page, visit: Open) -> None:
    opened = visit(page("inherited"))  # which fails on any error in the console
    names = opened.page.eval_on_selector_all(
        "#runs-table tbody th", "cells => cells.map(c => c.textContent)"
    )
    assert sorted(names) == sorted(INHERITED)
    inherited = opened.page.evaluate("() => Object.getOwnPropertyNames(Object.prototype)")
    assert [name for name in inherited if make_title(name) == name] == []
    metrics = opened.page.eval_on_selector_all(".chart", "charts => charts.map(c => c.id)")
    lines = [name for name in metrics if re.fullmatch(r"chart-(zeta|noisy|m\d+)", name)]
    assert len(lines) == 2 + len(INHERITED)
    for chart in lines:
        assert line_colors(opened, chart).count(LIGHT["line"]) == len(INHERITED)
        assert line_colors(opened, chart).count(LIGHT["accent"]) == 1
    titles = opened.page.eval_on_selector_all(
        ".chart .role-axis-title text", "texts => texts.map(text => text.textContent)"
    )
    assert set(INHERITED) <= {str(title).strip() for title in titles}
    for name in INHERITED:
        opened.page.select_option("#chosen-run", label=name)
        assert chosen_in_charts(opened) == {"regions": 12, "before": 12}
        for chart in ("chart-zeta", "chart-regions", lines[-1]):
            assert line_colors(opened, chart).count(LIGHT["highlight"]) == 1
    opened.point_at(opened.page.locator("#chart-regions .mark-symbol").first.locator("path").first)
    assert opened.text("#hint caption") in INHERITED


def test_names_like_constructor_do_not_break_figures(tmp_path: Path) -> None:
    store = write_store(tmp_path / "runs", **STORES["inherited"])
    assert save_figures(read_contents(store, rule="staged"), tmp_path / "figures").missing == {}
    drawn = ElementTree.parse(tmp_path / "figures" / "tracking.svg").getroot().iter()
    strokes = [part.get("stroke") for part in drawn if "L" in (part.get("d") or "")]
    charts = 2 + len(INHERITED)
    assert strokes.count(LIGHT["line"]) == charts * len(INHERITED)
    assert strokes.count(LIGHT["accent"]) == charts
