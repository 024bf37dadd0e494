"""A real browser for the tests of the page; without one they skip, and say so."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from rote.reporting import report
from tests.reporting.stores import STORES, write_store

Page = Callable[[str], Path]

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
REPORTING = Path(__file__).parent


@dataclass
class Tabs:
    """One browser, and the tabs that no test uses now.

    A tab that has drawn a page draws the next one in a third of the time of a new one, which is a
    new process that has compiled nothing yet.
    """

    running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    browser: Any = None
    idle: dict[str, list[Any]] = field(default_factory=dict)

    def start(self) -> None:
        missing = "playwright is not installed"
        playwright = pytest.importorskip("playwright.sync_api", reason=missing)
        if CHROMIUM is None:
            pytest.skip("Chromium is not installed (apt-get install chromium)")
        started = self.running.enter_context(playwright.sync_playwright())
        options = ["--headless", "--no-sandbox", "--disable-gpu"]
        self.browser = started.chromium.launch(executable_path=CHROMIUM, args=options)
        self.running.callback(self.browser.close)

    def stop(self) -> None:
        self.running.close()
        self.browser = None
        self.idle.clear()

    def take(self, kind: str, script: str, options: dict[str, object]) -> Any:
        """A tab that shows nothing, and knows nothing of those who used it before."""
        if idle := self.idle.get(kind):
            return idle.pop()
        context = self.browser.new_context(**options)
        context.add_init_script(script)
        return context.new_page()

    def give_back(self, tab: Any, kind: str) -> None:
        tab.goto("about:blank")  # nothing loads itself again
        tab.mouse.move(0, 0)  # nothing is pointed at
        self.idle.setdefault(kind, []).append(tab)


TABS = Tabs()


@pytest.hookimpl(trylast=True)  # after the fixtures, which leave their pages
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """An open browser has an event loop that runs: tests elsewhere may want their own."""
    if nextitem is None or REPORTING not in nextitem.path.parents:
        TABS.stop()


@pytest.fixture
def browser() -> Any:
    if TABS.browser is None:
        TABS.start()
    return TABS.browser


@dataclass
class Visit:
    """A page that is open, and what went wrong on it."""

    page: Any
    kind: str
    complaints: list[str] = field(default_factory=list)
    is_over: bool = False

    @cached_property
    def listeners(self) -> dict[str, Callable[[Any], None]]:
        return {
            "console": lambda message: self.complaints.append(message.text),
            "pageerror": lambda error: self.complaints.append(str(error)),
            "dialog": lambda dialog: self.complaints.append(dialog.message),
            "request": lambda request: self.complaints.append(request.url),
        }

    def end(self) -> None:
        """Leave the tab to the next page, if nothing went wrong on this one."""
        if self.is_over:
            return
        self.is_over = True
        if not self.complaints:
            self.page.evaluate("sessionStorage.clear()")
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)
        if self.complaints:
            self.page.context.close()
        else:
            TABS.give_back(self.page, self.kind)
        assert self.complaints == []

    def unfold(self) -> None:
        """Open every section, and wait for its charts."""
        self.page.evaluate(
            "() => { for (const one of document.querySelectorAll('.fold')) one.open = true; }"
        )
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.chart')].every((one) => one.dataset.drawn)"
        )

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
        colors: str = "light",
        until: str = "complete",
        script: str = "",
        **options: object,
    ) -> Visit:
        kind = repr((script, options))
        opened = Visit(TABS.take(kind, script, options), kind)
        visits.append(opened)
        opened.page.set_viewport_size({"width": width, "height": 900})
        opened.page.emulate_media(media="null", color_scheme=colors)
        for event, listener in opened.listeners.items():
            opened.page.on(event, listener)
        opened.page.goto(path.as_uri())
        opened.page.wait_for_selector(f"html[data-{until}]", state="attached")
        if until == "complete":
            opened.unfold()
        assert opened.complaints.pop(0) == path.as_uri()  # the page itself is the only request
        return opened

    yield open_page
    for opened in visits:
        opened.end()


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
