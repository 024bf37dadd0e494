"""The vocabulary of everything that people read: no word that the project has replaced."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rote

SOURCE = Path(rote.__file__).parent
PROJECT = SOURCE.parents[1]

REPLACED = {
    r"sureness": "confidence",
    r"standings": "baselines",
    r"torn": "truncated, interrupted",
    r"on a dip": "training accuracy dropped at this step",
    r"votes of neighbou?rs": "nearest-neighbor votes",
    r"redrawn|redraws?": "resampled uniformly, flipped",
    r"exploded|explodes?": "diverged",
    r"(?:go(?:es|ing)?|gone|went) on with(?!out)": "resumed, continued with",
    r"kin": "related work",
    r"leaves a trace": "changes training state",
    r"wrong labels? of the pool|pool of samples|samples? of the pool|pool sample": "holdout",
    r"errors that can be predicted": "systematic label errors",
    r"\w*(?:neighbour|colour|behaviour|labell(?!edby))\w*": "American spelling",
    r"\w*(?:memoris|normalis|optimis(?!m)|recognis)\w*": "American spelling",
    r"per cent": "percent",
    r"nobody|somebody|whoever": "the user, another process, unknown",
    r"if any(?=[.,;)])": "None if there is none",
    r"anew|afresh": "again",
    r"puts? back|putting back": "restore",
    r"strangers?": "other, foreign, a user's",
    r"told apart": "distinguished",
    r"go(?:es)? by(?! name)": "use",
    r"(?:go(?:es|ing)?|gone|went) on from": "resume",
    r"training goes on": "training continues",
    r"one's own": "your own",
    r"this very|the very same": "this, the same",
    r"murder\w*|mend(?:s|ed|ing)?": "kill, repair",
}
"""Words not to use, as patterns of whole words, with what to say instead.

First the left column of the vocabulary table, then habits that read like a translation.
`aria-labelledby` is the name of an attribute of HTML; "wrong label", "given labels", "the pick" and
"plain step" may stay where the table says so, and "pool" is right for runs.
"""

PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff")
SPOKEN = (".html", ".js", ".toml", ".json")
"""Files of the package that hold sentences beside the Python files."""


def strings_of(source: str) -> Iterator[tuple[int, str]]:
    """Every text of a module: docstrings, messages, help, notes, literal parts of f-strings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def comments_of(source: str) -> Iterator[tuple[int, str]]:
    """Every comment of a module; those of several lines are read as one."""
    lines: list[str] = []
    at = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            at = at if lines else token.start[0]
            lines.append(token.string.lstrip("# "))
        elif token.type != tokenize.NL and lines:
            yield at, " ".join(lines)
            lines = []
    if lines:
        yield at, " ".join(lines)


def read_source() -> Iterator[tuple[str, str]]:
    """Every text of the package: Python files, templates of the page, specs of the studies."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for line, text in (*strings_of(source), *comments_of(source)):
            yield f"{path.relative_to(PROJECT)}:{line}", text
    for folder in ("reporting/assets", "selection", "studies/pools"):
        for path in sorted((SOURCE / folder).iterdir()):
            if path.suffix in SPOKEN:
                yield str(path.relative_to(PROJECT)), path.read_text(encoding="utf-8")


def read_docs() -> Iterator[tuple[str, str]]:
    """Every page of the docs and of the project, by paragraph."""
    for path in (*(PROJECT / name for name in PAGES), *sorted((PROJECT / "docs").rglob("*.md"))):
        for number, paragraph in enumerate(path.read_text(encoding="utf-8").split("\n\n"), 1):
            yield f"{path.relative_to(PROJECT)}, paragraph {number}", paragraph


def find_replaced(text: str) -> list[str]:
    joined = " ".join(text.split())  # a phrase may be broken into two lines
    return [
        f"{found.group()} (say: {better})"
        for word, better in REPLACED.items()
        for found in re.finditer(rf"\b(?:{word})(?!\w)", joined, re.IGNORECASE)
    ]


@pytest.mark.parametrize(("read", "at_least"), [(read_source, 5_000), (read_docs, 1_000)])
def test_no_text_uses_a_replaced_word(
    read: Callable[[], Iterator[tuple[str, str]]], at_least: int
) -> None:
    texts = list(read())
    assert len(texts) > at_least
    found = {place: words for place, text in texts if (words := find_replaced(text))}
    assert found == {}


def test_every_kind_of_source_is_read() -> None:
    """One text of each kind, found where it is known to be."""
    known = {
        "an error": "Did you mean",
        "help of an option": "Print one JSON object",
        "a template": "<main",
        "a docstring": "Args:",
        "a comment": "noqa:",
    }
    source = "\n".join(text for _, text in read_source())
    assert [kind for kind, text in known.items() if text not in source] == []
    pages = {place.split(",")[0] for place, _ in read_docs()}
    assert {"README.md", "docs/selection.md", "docs/tutorials/text.md", "CITATION.cff"} <= pages


@pytest.mark.parametrize(
    "statement",
    [
        'raise InputError(f"{name}: the journal is torn.")',
        'warnings.warn("The run was gone on\\nwith.", RunWarning, stacklevel=2)',
        'typer.Option(help="How much sureness is needed.")',
        'def f() -> None:\n    """Give the standings."""',
        'NOTE = (\n    "The labels were "\n    "redrawn."\n)',
    ],
)
def test_a_replaced_word_is_found_in_code(statement: str) -> None:
    assert any(find_replaced(text) for _, text in strings_of(statement))


@pytest.mark.parametrize(
    "comment", ["x = 1  # of the pool sample", "# the run goes\n# on from here"]
)
def test_a_replaced_word_is_found_in_a_comment(comment: str) -> None:
    assert any(find_replaced(text) for _, text in comments_of(comment + "\n"))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("how sure: sureness 12%", 1),
        ("the votes of neighbours", 2),
        ("labels are memorised", 1),
        ("It goes on with the run", 1),
        ("It goes on without the run", 0),
        ("the command, if any, and if any label is missing", 1),
        ("nearest-neighbor votes, any kind of label", 0),
        ("optimism", 0),
    ],
)
def test_replaced_words_are_counted(text: str, count: int) -> None:
    assert len(find_replaced(text)) == count
