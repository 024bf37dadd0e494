"""Names and counts on the page, in a real browser: none turns its neighbors, one is singular."""

import re

import pytest

from rote.formatting import escape_invisible
from tests.reporting.conftest import Open, Page
from tests.reporting.stores import TURNED_NAMES

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

LAST_WORD = """element => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let text = null;
    while (walker.nextNode()) {
        if (/[a-z]{4}/.test(walker.currentNode.data)) text = walker.currentNode;
    }
    const start = text.data.search(/[a-z]{4}(?!.*[a-z]{4})/s);
    return [0, 1, 2, 3].map(index => {
        const range = document.createRange();
        range.setStart(text, start + index);
        range.setEnd(text, start + index + 1);
        return range.getBoundingClientRect().left;
    });
}"""
"""Where the last four letters of a word in an element start."""


def test_bidirectional_name_does_not_reverse_the_rest_of_the_line(page: Page, visit: Open) -> None:
    opened = visit(page("turned"))
    assert "‹U+202E›" in opened.page.evaluate(
        "document.querySelector('#runs-table tbody th').dataset.value"
    )
    text = opened.page.evaluate("document.body.innerText + document.title")
    assert not {"\u202e", "\u2066", "\u200b"} & set(text)
    for name in TURNED_NAMES:
        assert escape_invisible(name) in text
    for name in TURNED_NAMES:  # also a name in letters that run to the left stays among its own
        isolated = opened.page.eval_on_selector_all(
            "#runs-table bdi, #rules-table bdi, h1 bdi",
            "(all, name) => all.filter(e => e.textContent === name)"
            ".map(e => getComputedStyle(e).unicodeBidi)",
            escape_invisible(name),
        )
        assert set(isolated) == {"isolate"}
    sentences = opened.page.query_selector_all("#verdict .why p, #verdict .careful li")
    with_names = [
        s for s in sentences if any(escape_invisible(n) in s.text_content() for n in TURNED_NAMES)
    ]
    assert with_names
    for sentence in with_names:
        places = sentence.evaluate(LAST_WORD)
        assert places == sorted(places)
    option = opened.page.eval_on_selector("#chosen-run", "s => s.options[1].text")
    assert option in map(escape_invisible, TURNED_NAMES)


def test_tooltip_names_invisible_characters(page: Page, visit: Open) -> None:
    opened = visit(page("turned"))
    opened.page.select_option("#chosen-run", label=escape_invisible(TURNED_NAMES[0]))
    point = opened.page.locator("#chart-regions .mark-symbol").first.locator("path")
    shown = set()
    for index in range(0, point.count(), 6):
        opened.point_at(point.nth(index))
        shown.add(opened.text("#hint caption"))
    assert shown <= set(map(escape_invisible, TURNED_NAMES))
    assert any("‹U+202E›" in name for name in shown)


def test_singular_is_used_for_one(page: Page, visit: Open) -> None:
    for name in ("single", "one-run", "first-step", "usual"):
        opened = visit(page(name))
        text = opened.page.evaluate("document.body.textContent")
        wrong = re.findall(r"(?<![\d,.])1 (?:more )?(?:run|checkpoint|setting|rule)s\b", text)
        assert not wrong, name
        opened.end()
    single = visit(page("single"))
    assert single.text("#found") == "1 of 1 run"
    assert "The only checkpoint" in single.text("section[aria-labelledby=filter-title]")
    single.page.focus("#zeta-slider")
    single.page.keyboard.press("End")
    single.page.focus("#train-slider")
    single.page.keyboard.press("Home")
    assert single.text("#region-news") == "Region 1 holds 1 checkpoint."
