"""Writes the page of what was tried, and with which result."""

import platform
import textwrap
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

import rote

VERDICTS = {
    "same": "same",
    "refused": "refused",
    "unbuilt": "cannot be built here",
    "CHANGED": "CHANGED",
    "TRACEBACK": "TRACEBACK",
}

_INTRODUCTION = """\
Can your model or optimizer be probed? This is what `make compat` found. Every item is built small,
trained for two steps with and without probes, and compared. `rote doctor --model …` tries yours.

- *Same*: the drop equals that of a step really taken in a copy of the process, and parameters,
  buffers, gradients, optimizer state and generators are equal after training, all bit for bit.
- *Refused*: rote says in a sentence why it cannot probe.
- *Cannot be built here*: says nothing about rote. As our list builds it, the item does not train
  even without rote: a GPU or package is missing, it stays too large, or it does not accept images
  as small as ours, as most of pytorchcv. Or there was no answer in time; then it is not known
  whether a probe was the cause.
- *CHANGED* and *TRACEBACK* would be bugs of rote: training differs, or a probe ends in an error."""


_TRAINERS = (Path(__file__).parent / "trainers.md").read_text()
"""What the tests found, by hand: trainers and quantized networks are no part of the lists."""


@cache
def version_of(library: str) -> str:
    """Return the version of the package that a library is part of."""
    top = library.partition(".")[0]
    if top == "torch":
        return str(import_module("torch").__version__)
    try:
        return version(packages_distributions().get(top, [top])[0])
    except PackageNotFoundError:
        return "none"


def page(lines: Sequence[dict[str, Any]], wanted: int) -> str:
    """Write the results as Markdown.

    Args:
        lines: one per item.
        wanted: how many items there are, tried or not.
    """
    torch_version = import_module("torch").__version__
    text = [
        "# Compatibility",
        "",
        *_INTRODUCTION.splitlines(),
        "",
        f"rote {rote.__version__}, torch {torch_version}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, CPU. {len(lines)} of {wanted} items tried.",
        "",
    ]
    text += [*_TRAINERS.splitlines(), ""]
    for kind in ("architecture", "optimizer"):
        of_kind = [line for line in lines if line["kind"] == kind]
        if of_kind:
            text += [f"## {kind.capitalize()}s", "", *_counts(of_kind), ""]
    for verdict in ("CHANGED", "TRACEBACK", "refused", "unbuilt"):
        text += _listed(verdict, [line for line in lines if line["verdict"] == verdict])
    text += _warned([line for line in lines if line["warned"]])
    return "\n".join(text).rstrip() + "\n"


def _counts(lines: Sequence[dict[str, Any]]) -> list[str]:
    libraries = list(dict.fromkeys((line["library"], line["version"]) for line in lines))
    rows = {
        f"{name} {number}": Counter(line["verdict"] for line in lines if line["library"] == name)
        for name, number in libraries
    }
    rows["**all**"] = Counter(line["verdict"] for line in lines)
    head = f"| library | tried | {' | '.join(VERDICTS.values())} |"
    return [
        head,
        "|---|" + "---:|" * (len(VERDICTS) + 1),
        *(
            f"| {name} | {sum(found.values())} | {' | '.join(str(found[v]) for v in VERDICTS)} |"
            for name, found in rows.items()
        ),
    ]


def _listed(verdict: str, lines: Sequence[dict[str, Any]]) -> list[str]:
    if not lines:
        return []
    text = [f"## {VERDICTS[verdict]}".replace("## r", "## R").replace("## c", "## C"), ""]
    for line in lines:
        text.append(_item(f"{line['library']} `{line['name']}`: {_escaped(line['why'])}"))
        if verdict == "TRACEBACK":
            text += ["", "```text", line["trace"].rstrip(), "```", ""]
    return [*text, ""]


def _warned(lines: Sequence[dict[str, Any]]) -> list[str]:
    if not lines:
        return []
    listed = [
        _item(f"{line['library']} `{line['name']}`: {', '.join(line['warned'])}") for line in lines
    ]
    return ["## Warned of", "", *listed, ""]


def _item(text: str) -> str:
    return textwrap.fill(
        text, 116, initial_indent="- ", subsequent_indent="  ", break_long_words=False
    )


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")[:400]
