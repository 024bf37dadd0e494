"""`make docs`: a site without a warning that asks nobody for anything."""

import os
import re
import subprocess
import sys
from pathlib import Path

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
    assert "&gt;&gt;&gt; " in page or ">>> " in page  # the examples of the docstrings, as code


def test_pages_lead_to_the_glossary(site: Path) -> None:
    glossary = (site / "glossary.html").read_text()
    linked = re.findall(r'href="(?:\.\./)?glossary\.html#([^"]+)"', _all(site))
    assert len(set(linked)) >= 5
    assert all(f'id="{anchor}"' in glossary for anchor in linked)


def _all(site: Path) -> str:
    return "".join(path.read_text() for path in site.rglob("*.html") if path.stem != "glossary")
