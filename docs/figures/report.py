"""The gallery's picture of a report, from committed runs: ``python docs/figures/report.py``.

It is the page of all runs of the pool of README's picture. Needs Playwright and Chromium.
"""

import shutil
import tempfile
from contextlib import chdir
from pathlib import Path

from playwright.sync_api import sync_playwright

import rote
from rote.studies.pack import unpack
from rote.studies.pool import read_pools

FILE = Path(__file__).parent / "report.png"
POOL = "cifar10-medium-0"
_WIDE, _HIGH = 1080, 1010


def photograph(page: Path, picture: Path) -> None:
    """Save the first screen of a page."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": _WIDE, "height": _HIGH})
        tab.goto(page.as_uri())
        tab.locator("main svg").first.wait_for()
        tab.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Write the picture."""
    (pool,) = (pool for pool in read_pools("medium") if pool.name == POOL)
    with tempfile.TemporaryDirectory() as folder:
        unpack(pool.record, Path(folder) / "runs")
        page = Path(folder) / "report.html"
        with chdir(folder):  # so that it names runs/…
            rote.report("runs", page)
        photograph(page, FILE)


if __name__ == "__main__":
    main()
