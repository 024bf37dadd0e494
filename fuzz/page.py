"""Hostile content against the page: whatever runs are called and hold, it stays text and numbers.

A finding is an exception that is no ``RoteError``, a warning that is not rote's, an element or an
attribute that comes from content, a sign that turns or hides text, a number that no JSON has, a
figure that cannot be drawn, or a page that is too large.
"""

import base64
import json
import random
import re
import tempfile
import traceback
import unicodedata
import warnings
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl

from fuzz._trials import repeat
from rote.errors import RoteError, RoteWarning
from rote.records import SHARES
from rote.reporting.contents import Contents, read_contents
from rote.reporting.page import render_page
from rote.reporting.write_report import save_figures
from rote.store import RunTable

PAPER = "https://openreview.net/forum?id=ORp91sAbzI"
"""The only place outside that a page leads to."""

MOST_BYTES = 5_000_000
TEXTS = (
    "<evil onevil=1>",
    "</script><evil>",
    '" evil="1',
    "' evil='1",
    "--><evil><!--",
    "{{ evil }}{% evil %}",
    "`<evil>`",
    "\u202eevil\u2066",
    "\x00\x07\x1b[31mevil\x7f",
    "\u2028\u2029\ufeff\u200b",
    "]]></style><evil>",
    "javascript:evil()",
    "a.b['c']\\\"[0]",
    "ריצה",
    "run",
    "",
    " ",
    "__proto__",
    "constructor",
    "1e5",
    "ζ-é",
    "🙂" * 5,
)
SURROGATE = "\ud800evil\udfff"
VALUES: tuple[Callable[[random.Random], float | None], ...] = (
    lambda rng: rng.random(),
    lambda rng: rng.random(),
    lambda rng: 100 * rng.random(),
    lambda rng: rng.gauss(0, 1) * 10 ** rng.randint(-320, 307),
    lambda rng: rng.choice((0.0, -0.0, 1.0, 5e-324, 1.7e308, -1.7e308, 2.0**53)),
    lambda rng: rng.choice((float("nan"), float("inf"), -float("inf"), None)),
)
NUMBERLESS = re.compile(r"(?<![\w./])(nan|inf|NaN|Infinity|undefined)(?![\w./])")


def attack(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Make pages of random tables for a while."""
    return repeat(_try_page, seed, seconds)


def table_of(rng: random.Random) -> RunTable:
    """Make runs with any names, metrics and values."""
    names = list(dict.fromkeys(_text(rng) for _ in range(rng.choice((1, 1, 2, 7, 30)))))
    lengths = {name: rng.choice((0, 1, 2, 6, 40)) for name in names}
    lengths[names[0]] = max(lengths[names[0]], 1)
    rows = [(name, row) for name, length in sorted(lengths.items()) for row in range(length)]
    jump = rng.choice((1, 1, 1000, 2**40))
    columns: dict[str, Any] = {
        "run": [name for name, _ in rows],
        "row": [row for _, row in rows],
        "step": [(row + 1) * jump for _, row in rows],
    }
    known = [name for name in ("susceptibility", *SHARES) if rng.random() < 0.8]
    others = dict.fromkeys(_text(rng) for _ in range(rng.choice((0, 1, 5, 60))))
    metrics = [name for name in (*known, *others) if name not in columns]
    for name in metrics:
        kinds = rng.choices(VALUES, k=rng.choice((1, 1, 1, 2)))
        columns[name] = [rng.choice(kinds)(rng) for _ in rows]
    types = dict.fromkeys(metrics, pl.Float64)
    frame = pl.DataFrame(columns, schema_overrides=types)
    return RunTable(frame, {name: _description(rng, metrics) for name in names})


def _description(rng: random.Random, metrics: list[str]) -> dict[str, Any]:
    def text() -> str:
        return SURROGATE if rng.random() < 0.05 else _text(rng)

    kinds = ("signal", "signal", "truth", "other", text())
    units = ("share", "seconds", "", text())
    described = {
        name: {"label": text(), "kind": rng.choice(kinds), "unit": rng.choice(units)}
        for name in metrics
        if rng.random() < 0.3
    }
    entries: dict[str, Any] = {
        "columns": described,
        "seed": rng.choice((0, text(), None, [text()])),
        "command": rng.choice((text(), [text(), text()], None, 3)),
        "versions": {text(): text()},
        "created": rng.choice((text(), 7, None, [])),
        "num_classes": rng.choice((10, 0, text(), None)),
        "holdout": rng.choice(
            (None, {}, text(), {"size": 100}, {"predictions": [rng.choice((3, -1))]})
        ),
        text(): {text(): rng.choice((text(), 1, 1.5e300, None, True))},
    }
    return {name: value for name, value in entries.items() if rng.random() < 0.8}


def _text(rng: random.Random) -> str:
    if rng.random() < 0.02:
        return "evil" * 3000
    return "".join(rng.choices(TEXTS, k=rng.choice((1, 1, 2, 3))))


def _try_page(rng: random.Random) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("default", RoteWarning)
        try:
            contents = read_contents(table_of(rng))
            page = render_page(contents)
            page.encode()
            found = _figures(contents) if rng.random() < 0.2 else []
        except RoteError:
            return []
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            return [f"{type(error).__name__} in {place.name}: {str(error)[:200]!r}"]
    return [*found, *_markup(page), *_payload(page)]


class Parsed(HTMLParser):
    """Everything on a page that is no script: its elements, and its text."""

    def __init__(self) -> None:
        """Nothing yet."""
        super().__init__()
        self.findings: list[str] = []
        self.scripts: dict[str, str] = {}
        self.text: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Names from content, and addresses that lead somewhere."""
        given = dict(attrs)
        names = [tag, *given]
        self.findings += [f"content made <{tag} {name}>" for name in names if "evil" in name]
        address = given.get("href") or given.get("src") or "#"
        if not address.startswith("#") and (tag, address) != ("a", PAPER):
            self.findings.append(f"<{tag}> leads to {address!r}")
        self.text += [value or "" for value in given.values()]
        self._inside = (given.get("id") or tag) if tag in ("script", "style") else ""

    def handle_data(self, data: str) -> None:
        """Scripts by name, text by itself."""
        if self._inside:
            self.scripts[self._inside] = self.scripts.get(self._inside, "") + data
        else:
            self.text.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Text again."""
        self._inside = "" if tag in ("script", "style") else self._inside


def _markup(page: str) -> list[str]:
    parsed = Parsed()
    parsed.feed(page)
    parsed.close()
    findings = list(parsed.findings)
    if page.count("<script") != 4 or set(parsed.scripts) != {
        "style", "payload", "numbers", "vega", "script"
    }:  # fmt: skip
        findings.append(f"scripts are {sorted(parsed.scripts)}")
    for text in parsed.text:
        odd = {s for s in text if unicodedata.category(s) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        if odd - set("\n\t\u200c\u200d\u00ad"):
            findings.append(f"signs that show nothing in {text[:60]!r}")
        if NUMBERLESS.search(text):
            findings.append(f"no number in {text[:120]!r}")
    if len(page.encode()) > MOST_BYTES:
        findings.append(f"the page has {len(page.encode())} bytes")
    return findings


def _payload(page: str) -> list[str]:
    letters = re.findall('<script type="text/plain" id="payload">([^<]*)<', page)
    if len(letters) != 1:
        return ["there is no payload"]
    findings: list[str] = []
    text = zlib.decompress(base64.b64decode(letters[0])).decode()
    json.loads(text, parse_constant=lambda name: findings.append(f"{name} in the payload"))
    return findings


def _figures(contents: Contents) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        saved = save_figures(contents, Path(folder))
        return [f"{file.name} is empty" for file in saved.files if not file.stat().st_size]
