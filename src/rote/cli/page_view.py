"""A page of Markdown as text for a terminal: tables are aligned, pictures are left out."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

_GAP = "  "


def print_page(page: str) -> None:
    """Print a page of headings, paragraphs and tables."""
    console = Console(highlight=False)
    for block in _blocks(page):
        if block.startswith("|"):
            rows = [_cells(line) for line in block.splitlines()]
            for line in _table_lines(rows[0], rows[2:], console.width):
                console.print(Text(line), soft_wrap=True)
        elif block.startswith("# "):
            console.print(Text(block.removeprefix("# "), style="bold"))
        else:
            console.print(_paragraph(block))
        console.print()


def _blocks(page: str) -> Iterator[str]:
    """Paragraphs and tables; pictures and their captions are left out."""
    for block in re.split(r"\n\s*\n", page.strip()):
        if not block.startswith("![") and not (block.startswith("*") and block[1:2] != "*"):
            yield block.strip()


def _paragraph(block: str) -> Text:
    """Bold words stay bold, code and links are their text, and lines are filled anew."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(block.split()).replace("`", ""))
    text = Text()
    for place, part in enumerate(plain.split("**")):
        text.append(part, style="bold" if place % 2 else "")
    return text


def _table_lines(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Aligned columns where they fit, with titles over several lines; else a block for each row."""
    longest = [max(map(len, title.split()), default=0) for title in head]
    widths = [max([longest[p], *(len(row[p]) for row in rows)]) for p in range(len(head))]
    if sum(widths) + len(_GAP) * (len(widths) - 1) <= width:
        titles = [textwrap.wrap(title, size) for title, size in zip(head, widths, strict=True)]
        height = max(map(len, titles))
        padded = [[""] * (height - len(title)) + title for title in titles]
        lines = [list(line) for line in zip(*padded, strict=True)]
        for row in (*lines, ["─" * size for size in widths], *rows):
            first = row[0].ljust(widths[0])
            others = [cell.rjust(size) for cell, size in zip(row[1:], widths[1:], strict=True)]
            yield _GAP.join([first, *others]).rstrip()
        return
    longest_title = max(map(len, head[1:]), default=0)
    for row in rows:
        yield row[0]
        for title, cell in zip(head[1:], row[1:], strict=True):
            yield f"{_GAP}{title.ljust(longest_title)}{_GAP}{cell}"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
