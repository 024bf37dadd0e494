"""What the page says about what is pointed at, in a real browser: by mouse and by finger."""

import pytest

from tests.reporting.conftest import Open, Page, Visit

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

PHONE = {"has_touch": True, "is_mobile": True}
FIRST = [
    "step",
    "ζ",
    "training accuracy",
    "test accuracy",
    "accuracy on the holdout's given labels",
]


def hint(visit: Visit) -> list[list[str]]:
    visit.page.wait_for_selector("#hint:not([hidden])")
    found = visit.page.eval_on_selector_all(
        "#hint tr", "rows => rows.map(r => [r.cells[0].textContent, r.cells[1].textContent])"
    )
    return [[str(name), str(text)] for name, text in found]


def title(visit: Visit) -> str:
    return visit.text("#hint caption")


def middle(visit: Visit, selector: str, index: int = 0) -> tuple[float, float]:
    return visit.middle(visit.page.locator(selector).nth(index))


@pytest.mark.parametrize("width", [320, 1280])
def test_tooltip_has_five_lines_in_the_page_units(page: Page, visit: Open, width: int) -> None:
    opened = visit(page("metrics"), width=width)
    point = "#chart-regions .mark-symbol >> nth=0 >> path"
    for index in (0, 35):  # the last one is of the run with the long name
        opened.page.mouse.move(*middle(opened, point, index))
        rows = hint(opened)
        assert [name for name, _ in rows] == FIRST
        assert rows[1][1].replace("−", "").replace(".", "").isdigit()
        assert all(text.endswith("%") for _, text in rows[2:])
        box = opened.page.locator("#hint").bounding_box()
        assert box["x"] >= 0
        assert box["y"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= 900
        lines = opened.page.eval_on_selector_all(
            "#hint td bdi", "values => values.map(value => value.getClientRects().length)"
        )
        assert set(lines) == {1}  # no number is broken
    assert title(opened) == "c" * 400
    opened.page.mouse.move(1, 1)
    opened.page.wait_for_selector("#hint", state="hidden")


def test_tooltip_starts_with_what_the_chart_draws(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    opened.page.mouse.move(*middle(opened, "#chart-noisy .mark-symbol path"))
    assert [name for name, _ in hint(opened)][:3] == ["step", "accuracy on noisy labels", "ζ"]
    assert len(hint(opened)) == 5


@pytest.mark.parametrize("chart", ["regions", "zeta", "noisy", "before", "after"])
def test_touch_near_a_checkpoint_shows_it_and_selects_its_run(
    page: Page, visit: Open, chart: str
) -> None:
    opened = visit(page("usual"), width=390, **PHONE)
    if chart in ("zeta", "noisy"):  # the ring of the pick: lines have no other marks
        x, y = middle(opened, f"#chart-{chart} .mark-symbol path")
    else:
        x, y = middle(opened, f"#chart-{chart} .mark-symbol >> nth=0 >> path", 3)
    opened.page.touchscreen.tap(x + 7, y - 7)  # a finger is never exact
    rows = dict(hint(opened))
    assert {"step", "ζ", "training accuracy"} <= rows.keys()
    box = opened.page.locator("#hint").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert opened.text("tr.chosen th") == title(opened)
    opened.page.touchscreen.tap(195, 20)
    opened.page.wait_for_selector("#hint", state="hidden")


def test_touch_on_a_cell_of_the_map_shows_it(page: Page, visit: Open) -> None:
    opened = visit(page("usual"), width=390, **PHONE)
    opened.page.touchscreen.tap(*middle(opened, "#chart-sensitivity .mark-rect path", 40))
    rows = dict(hint(opened))
    assert {"ζ at most", "training accuracy at least"} <= rows.keys()


def test_click_on_empty_space_clears_the_selection(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    x, y = middle(opened, "#chart-regions .mark-symbol >> nth=0 >> path", 5)
    opened.page.mouse.click(x, y)
    opened.page.wait_for_selector("tr.chosen", state="attached")
    box = opened.page.locator("#chart-regions").bounding_box()
    opened.page.mouse.click(box["x"] + 5, box["y"] + 5)
    opened.page.wait_for_selector("tr.chosen", state="detached")
    assert opened.page.is_hidden("#hint")


def test_tooltip_of_a_line_shows_the_nearest_checkpoint(page: Page, visit: Open) -> None:
    opened = visit(page("usual"))
    opened.page.mouse.move(*middle(opened, "#chart-zeta .mark-symbol path"))
    rows = dict(hint(opened))
    assert opened.text("h1").endswith(f"step {rows['step']} of {title(opened)}")
