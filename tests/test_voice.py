"""The vocabulary of everything that people read: no word that the project has replaced."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rote

ROOT = Path(rote.__file__).parent

REPLACED = {
    r"sureness": "confidence",
    r"standings": "baselines",
    r"torn": "truncated, interrupted",
    r"on a dip": "training accuracy dropped at this step",
    r"votes of neighbou?rs": "nearest-neighbor votes",
    r"redrawn|redraws?": "resampled uniformly, flipped",
    r"exploded|explodes?": "diverged",
    r"(?:go(?:es|ing)?|gone|went) on with": "resumed",
    r"kin": "related work",
    r"leaves a trace": "changes training state",
    r"wrong labels? of the pool|pool of samples|samples? of the pool|pool sample": "holdout",
    r"errors that can be predicted": "systematic label errors",
    r"\w*(?:neighbour|colour|behaviour|labell(?!edby))\w*": "American spelling",
    r"\w*(?:memoris|normalis|optimis(?!m)|recognis)\w*": "American spelling",
}
"""The left column of the vocabulary table, as patterns of whole words, with the right one.

`aria-labelledby` is the name of an attribute of HTML; "wrong label", "given labels", "the pick" and
"plain step" may stay where the table says so, and "pool" is right for runs.
"""


def strings_of(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module: docstrings, messages, help, notes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def texts() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        for line, text in strings_of(path):
            yield f"{path.relative_to(ROOT)}:{line}", text
    for path in sorted((ROOT / "reporting" / "assets").iterdir()):
        if path.suffix in (".html", ".js"):
            for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                yield f"{path.relative_to(ROOT)}:{line}", text


def find_replaced(text: str) -> list[str]:
    return [
        f"{found.group()} (say: {better})"
        for word, better in REPLACED.items()
        for found in re.finditer(rf"\b(?:{word})\b", text, re.IGNORECASE)
    ]


def test_no_text_has_a_word_that_was_replaced() -> None:
    read = list(texts())
    assert len(read) > 5_000
    found = {place: words for place, text in read if (words := find_replaced(text))}
    assert found == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("how sure: sureness 12%", 1),
        ("the votes of neighbours", 2),
        ("labels are memorised", 1),
        ("It goes on with the run", 1),
        ("nearest-neighbor votes, any kind of label", 0),
        ("optimism", 0),
    ],
)
def test_words_that_were_replaced_are_found(text: str, count: int) -> None:
    assert len(find_replaced(text)) == count
