"""Every page has short lines, and names only commands, files and words that exist."""

import html
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rote.cli.main import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
NAMES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in NAMES)]
WORDS = ROOT / "src" / "rote" / "reporting" / "assets" / "words.html"
LONGEST = 120


def by_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=by_name)
def test_lines_are_short_except_in_tables_links_and_output(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    output = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    printed = {line for block in output for line in block.splitlines()}
    for number, line in enumerate(text.splitlines(), 1):
        is_bound = line.startswith(("|", "![")) or "](" in line or line in printed
        assert len(line) <= LONGEST or is_bound, f"{path}:{number}"


def commands(text: str) -> Iterator[list[str]]:
    """What begins with ``rote`` in shell blocks and in inline code, as words."""
    blocks = re.findall(r"```(?:sh|bash)\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines += [code.replace("\n", " ") for code in re.findall(r"`([^`]+)`", prose)]
    for line in lines:
        for part in re.split(r"[;|]|&&", re.sub(r"\s#.*", "", line)):
            words = shlex.split(part.replace("'", "")) if part.strip().startswith("rote ") else []
            if len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
                yield words


def check(words: list[str]) -> None:
    command: Any = get_command(app)
    rest = words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    used = {word.partition("=")[0] for word in rest if re.match(r"-{1,2}[a-z]", word)}
    assert len(rest) < len(words) - 1, f"no such command: {words}"
    assert used <= known, words


def test_every_command_that_is_written_down_exists() -> None:
    found = [words for path in PAGES for words in commands(path.read_text(encoding="utf-8"))]
    assert len(found) > 100
    for words in found:
        check(words)


@pytest.mark.parametrize("line", ["rote slect runs", "rote select runs --rulez last"])
def test_check_above_can_fail(line: str) -> None:
    (words,) = commands(f"`{line}`")
    with pytest.raises(AssertionError):
        check(words)


def test_every_example_and_target_that_is_written_down_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    named = set(re.findall(r"(?:examples|benchmarks)/[\w/]+\.(?:py|toml|ipynb|json)", text))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= set(targets)


LINK = re.compile(r"\]\(([^)\s]+)\)")


def read_prose(path: Path) -> str:
    """Return a page without its blocks of code, whose comments look like headings."""
    return re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def find_anchors(path: Path) -> set[str]:
    """Return the anchors of the headings that GitHub and the site spell in the same way."""
    anchors = set()
    for heading in re.findall(r"^#+ (.+)$", read_prose(path), flags=re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading)
        of_github = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        of_site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words.lower(), flags=re.ASCII))
        anchors |= {of_github} & {of_site}
    return anchors


@pytest.mark.parametrize("path", PAGES, ids=by_name)
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    """`mkdocs build --strict` checks the same for the site alone, and takes longer."""
    for link in LINK.findall(read_prose(path)):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not anchor or anchor in find_anchors(target), link


def test_every_page_of_the_site_is_in_its_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = re.findall(r"(?:: |- )([\w/-]+\.md)$", navigation, flags=re.MULTILINE)
    assert sorted(listed) == sorted(
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")
    )


def test_every_example_is_listed_once() -> None:
    programs = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    listed = re.findall(r"^\| \[(.+?)\]\(\1\) \|", (EXAMPLES / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(programs)


def test_the_words_of_the_report_are_those_of_the_glossary() -> None:
    glossary = dict(
        re.findall(r"^## (.+)\n\n((?:.+\n)+)", (DOCS / "glossary.md").read_text(), re.M)
    )
    found = re.findall(
        r'<div id="word-(.+?)"><dt>(.+?)</dt><dd><span>(.+?)</span>', WORDS.read_text()
    )
    assert {"Probe batch", "Holdout", "Live step", "Reference step", "Relative", "Staged", "Region",
            "Interrupted"} <= {word for _, word, _ in found}  # fmt: skip
    summary = (ROOT / "src" / "rote" / "selection" / "summary.py").read_text()
    (by_column,) = re.findall(r"^_WORDS = \{(.+?)\}", summary, re.MULTILINE | re.DOTALL)
    linked = [*re.findall(r': "(.+?)"', by_column), *re.findall(r'\bword="(.+?)"', summary)]
    assert len(linked) > 3
    assert set(linked) <= {name for name, _, _ in found}
    for name, word, meaning in found:
        assert name == word.lower().replace(" ", "-")
        written = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", " ".join(glossary[word].split()))
        assert written.startswith(html.unescape(meaning)), word


def test_the_shell_completes_commands() -> None:
    from typer.testing import CliRunner

    asked = {"_ROTE_COMPLETE": "complete_bash", "COMP_WORDS": "rote study sh", "COMP_CWORD": "2"}
    done = CliRunner().invoke(app, [], prog_name="rote", env=asked)
    assert done.output.split() == ["show"]
    assert "rote --install-completion" in (DOCS / "README.md").read_text()
