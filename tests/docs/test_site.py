"""`make docs`: a site without a warning that asks nobody for anything."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import rote

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

pytest.importorskip("mkdocs", reason="needs the group `docs`")

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|link|img|iframe)[^>]*?(?:src|href)=["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
    return folder


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    for page in pages:
        path = site / page.with_name(page.name.replace("README", "index")).with_suffix(".html")
        assert LOADED.search(path.read_text()) is None, page
    assert LOADED.search('<script src="https://example.org/a.js">')
    for style in site.rglob("*.css"):
        assert re.search(r"url\(.?https?:|@import", style.read_text()) is None, style


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = "".join(path.read_text() for path in (site / "api").glob("*.html"))
    for name in set(rote.__all__) - {"__version__"}:
        assert f'id="rote.{name}"' in page, name
    assert re.search(r'id="rote\.[\w.]*\.__\w+__"', page) is None  # nobody calls them
    assert "&gt;&gt;&gt; " in page or ">>> " in page  # the examples of the docstrings, as code
    # A name that a submodule also has is found by a longer path.
    paths = [path.split(".") for path in re.findall(r'id="rote\.([\w.]+)"', page)]
    found = {(path[0], path[-1]) for path in paths}
    for folder in sorted(Path(rote.__file__).parent.glob("*/__init__.py")):
        room = folder.parent.name
        names = set(getattr(import_module(f"rote.{room}"), "__all__", [])) - set(rote.__all__)
        assert [name for name in sorted(names) if (room, name) not in found] == [], room


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def tab(site: Path) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as started:
        options = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser.new_page()
        browser.close()


@pytest.mark.parametrize(
    ("query", "guide"),
    [
        ("clean my dataset", "your-data"),
        ("wrong labels", "your-data"),
        ("label noise", "your-data"),
        ("which checkpoint", "selection"),
        ("early stopping", "stopping"),
        ("overfitting", "index"),
    ],
)
def test_a_search_without_a_server_finds_the_guide_first(
    site: Path, tab: Any, query: str, guide: str
) -> None:
    tab.goto(f"{(site / 'windows.html').as_uri()}?q={query.replace(' ', '+')}")
    first = tab.locator(".md-search-result__item > a").first
    first.wait_for(state="attached")
    assert Path(first.get_attribute("href").partition("?")[0]).stem == guide


def test_pages_of_the_reference_have_a_limited_length(site: Path, tab: Any) -> None:
    """Split a page that grows beyond twenty screens."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    for page in sorted((site / "api").glob("*.html")):
        tab.goto(page.as_uri())
        height = tab.evaluate("document.documentElement.scrollHeight")
        assert 500 < height < 18_000, page.name


def test_the_verdict_of_a_tutorial_can_be_read_without_scrolling(site: Path, tab: Any) -> None:
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto((site / "tutorials" / "images.html").as_uri())
    block = tab.locator("pre code", has_text="Estimated accuracy").first
    visible, needed = block.evaluate("e => [e.clientWidth, e.scrollWidth]")
    assert 0 < needed <= visible


def test_pages_lead_to_the_glossary(site: Path) -> None:
    glossary = (site / "glossary.html").read_text()
    linked = re.findall(r'href="(?:\.\./)?glossary\.html#([^"]+)"', _all(site))
    assert len(set(linked)) >= 5
    assert all(f'id="{anchor}"' in glossary for anchor in linked)


def _all(site: Path) -> str:
    return "".join(path.read_text() for path in site.rglob("*.html") if path.stem != "glossary")
