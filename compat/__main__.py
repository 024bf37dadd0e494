"""Try rote on other people's code: ``python -m compat [--only WORD] [KIND ...]``.

Every item is tried in a process of its own, which is killed when its time is over. Results are
appended to a file as they come; what is in it, of the same versions, is not tried again.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from compat import architectures, optimizers
from compat.check import Item, Outcome, check
from compat.fork import ForkError, in_fork
from compat.table import page, version_of

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Try what was not tried yet and write the table; 1 if rote changed something or broke."""
    options = _options()
    torch.set_num_threads(1)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    results = _read(options.results)
    wanted = list(_items(options))
    _import({item.library for item in wanted})
    end = time.monotonic() + 60 * options.minutes
    for number, item in enumerate(wanted, 1):
        if time.monotonic() > end:
            print(f"Stopped after {options.minutes:g} minutes; run it again to go on.")
            break
        if _key(item) in results:
            continue
        line = _tried(item, options.seconds)
        results[_key(item)] = line
        with options.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        what = f"{number}/{len(wanted)} {item.library} {item.name}: {line['verdict']}"
        print(f"{what} {line['why'][:90]} ({line['seconds']} s)", flush=True)
    found = [results[_key(item)] for item in wanted if _key(item) in results]
    options.page.write_text(page(found, len(wanted)))
    return int(any(line["verdict"] in ("CHANGED", "TRACEBACK") for line in found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m compat", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="architectures, optimizers; both")
    parser.add_argument("--only", default="", help="items whose library or name has this in it")
    parser.add_argument(
        "--optimizer", action="append", metavar="MODULE:NAME", help="one of your own, alone"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for each item")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for all of them")
    parser.add_argument("--results", type=Path, default=ROOT / ".compat-results.jsonl")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "compatibility.md")
    return parser.parse_args()


def _items(options: argparse.Namespace) -> Iterator[Item]:
    if options.optimizer:
        yield from map(optimizers.item, options.optimizer)
        return
    kinds = options.kinds or ["optimizers", "architectures"]
    for kind, room in (("optimizers", optimizers), ("architectures", architectures)):
        if kind in kinds:
            yield from (i for i in room.items() if options.only in f"{i.library}.{i.name}")


def _import(libraries: set[str]) -> None:
    """Import once, here, what every fork would import for itself."""
    late = ["rote.tracking", "torch._dynamo"]
    if "transformers" in libraries:
        late.append("transformers.modeling_utils")
    for name in (*late, *sorted(libraries)):
        with suppress(ImportError):  # then nothing of it is in the list, or it says so itself
            import_module(name)


def _key(item: Item) -> tuple[str, ...]:
    return item.kind, item.library, item.name, version_of(item.library), torch.__version__


def _read(path: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the results so far; a line that was cut off by a kill is tried again."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        key = ("kind", "library", "name", "version", "torch")
        results[tuple(found[word] for word in key)] = found
    return results


def _tried(item: Item, seconds: float) -> dict[str, Any]:
    started = time.monotonic()
    try:
        outcome = in_fork(lambda: asdict(check(item)), seconds=seconds)
    except ForkError as error:
        outcome = asdict(Outcome("unbuilt", str(error), error.trace))
    return {
        "kind": item.kind,
        "library": item.library,
        "name": item.name,
        "version": version_of(item.library),
        "torch": torch.__version__,
        **outcome,
        "seconds": round(time.monotonic() - started, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
