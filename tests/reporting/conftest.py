"""A real browser for the tests of the page; without one they skip, and say so."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rote.reporting import report
from tests.reporting.stores import STORES, write_store

Page = Callable[[str], Path]

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        options = ["--headless", "--no-sandbox", "--disable-gpu"]
        opened = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield opened
        opened.close()


@dataclass
class Visit:
    """A page that is open, and what went wrong on it."""

    page: Any
    complaints: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return str(self.page.text_content(selector)).strip()

    def middle(self, mark: Any) -> tuple[float, float]:
        """Where a mark is, in the window."""
        mark.scroll_into_view_if_needed()
        # Scrolling hides a hint: wait until it is over. ``hover`` does not.
        self.page.evaluate("() => new Promise(r => requestAnimationFrame(() => setTimeout(r)))")
        box = mark.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def point_at(self, mark: Any) -> None:
        """Have the hint of a mark."""
        self.page.mouse.move(*self.middle(mark))
        self.page.wait_for_selector("#hint:not([hidden])")


Open = Callable[..., Visit]


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Opens pages; what they print, ask of a network, or pop up fails the test."""
    visits: list[Visit] = []

    def open_page(
        path: Path,
        width: int = 1280,
        colours: str = "light",
        until: str = "complete",
        script: str = "",
        **options: object,
    ) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=colours, **options
        )
        context.add_init_script(script)
        opened = Visit(context.new_page())
        visits.append(opened)
        opened.page.on("console", lambda message: opened.complaints.append(message.text))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
        opened.page.on("request", lambda request: opened.complaints.append(request.url))
        opened.page.goto(path.as_uri())
        opened.page.wait_for_selector(f"html[data-{until}]", state="attached")
        assert opened.complaints.pop(0) == path.as_uri()  # the page itself is the only request
        return opened

    yield open_page
    for opened in visits:
        opened.page.context.close()
        assert opened.complaints == []


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    root = tmp_path_factory.mktemp("pages")

    def made(name: str) -> Path:
        path = root / f"{name}.html"
        if not path.exists():
            rule = None if name == "bare" else "staged"  # whose regions most tests look at
            report(write_store(root / name, **STORES[name]), path, rule=rule)
        return path

    return made
