"""For `make docs`: searches find the guides first.

A hook instead of front matter, which other viewers of Markdown show as a table above the page.
"""

from typing import Any

BOOSTS = {"your-data.md": 8, "selection.md": 8, "stopping.md": 4,
          "glossary.md": 2, "results/": 0.25, "api/": 0.5}  # fmt: skip
"""By the beginning of a page's path, how much its words count in a search; otherwise 1."""


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:  # noqa: ANN401
    """Set the weight of a page before the search index reads it."""
    for start, boost in BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta["search"] = {"boost": boost}
    return markdown
