"""The report: how long it takes to write, how large it is, how fast it opens in Chromium.

Writes stores (50 and 500 runs of 200 checkpoints, 20,000 of 100) into a temporary directory, makes
the page of each in a process of its own, opens it five times in headless Chromium, prints the
figures and writes them to ``benchmarks/report.json``::

    python benchmarks/report.py
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from rote.records import Reading
from rote.store import encode_reading
from rote.store.journal import FileSoFar, encode_line

LAYOUTS: dict[str, dict[str, Any]] = {
    "50 runs x 200": {"runs": 50, "steps": 200, "most_bytes": 1_500_000},
    "500 runs x 200": {"runs": 500, "steps": 200, "most_bytes": 5_000_000},
    "20000 runs x 100": {"runs": 20_000, "steps": 100, "most_bytes": 5_000_000},
}
MOST_SECONDS, MOST_MAKING = 3.0, 15.0
MAKE = "import sys, rote; rote.report(sys.argv[1], sys.argv[2])"
METRICS = (
    "train_accuracy",
    "test_accuracy",
    "clean_accuracy",
    "noisy_accuracy",
    "lr",
    "train_loss",
)


def journal_of(rows: list[dict[str, float]]) -> bytes:
    """Return the journal of a run as rote writes it."""
    reading = Reading(1, *[0.0] * 5, *[0.0] * 5, seconds=0.0, metrics=dict.fromkeys(METRICS, 0.0))
    line, so_far, journal = encode_reading(reading), FileSoFar(), b""
    for number, row in enumerate(rows):
        data, so_far = encode_line(line | row | {"row": number}, so_far)
        journal += data
    return journal


def readings(steps: int, speed: float, rng: np.random.Generator) -> list[dict[str, float]]:
    """Return what a run of `rote train` records, in full precision."""
    step = np.arange(1, steps + 1)
    noise = rng.random((8, steps))
    memorized, learned = 1 - np.exp(-speed * step / 40), 1 - np.exp(-step / 5)
    zeta, plain = (
        memorized * speed * factor + 0.01 * noise[i] for i, factor in ((0, 0.4), (1, 0.1))
    )
    before, after, after_plain = 2.3 + noise[2], 2.2 + noise[3], 2.25 + noise[4]
    test = 0.9 * learned - 0.3 * memorized + 0.01 * noise[5]
    columns = {
        "step": step,
        "loss_before": before,
        "loss_after": after,
        "drop": before - after,
        "susceptibility": zeta,
        "susceptibility_relative": zeta / 2.3,
        "loss_after_plain": after_plain,
        "drop_plain": before - after_plain,
        "susceptibility_plain": plain,
        "susceptibility_plain_relative": plain / 2.3,
        "validation_accuracy": np.round(500 * test) / 500,
        "seconds": noise[6],
        "train_accuracy": 0.5 * learned + 0.45 * memorized,
        "test_accuracy": test,
        "clean_accuracy": learned,
        "noisy_accuracy": memorized,
        "lr": 0.1 * np.cos(step / 130),
        "train_loss": 2.3 - learned + 0.1 * noise[7],
    }
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def write_store(store: Path, runs: int, steps: int) -> None:
    """Write runs of so many checkpoints."""
    rng = np.random.default_rng(0)
    for number in range(runs):
        run = store / f"run-{number:05d}"
        run.mkdir(parents=True)
        settings = {"lr": 10.0 ** -rng.integers(1, 4), "momentum": 0.9}
        description = {
            "schema": 1,
            "name": run.name,
            "num_classes": 10,
            "seed": number,
            "holdout": None,
            "optimizer": {"class": "torch.optim.sgd.SGD", "settings": settings},
        }
        (run / "run.json").write_text(json.dumps(description))
        rows = readings(steps, rng.uniform(0.05, 0.5), rng)
        (run / "journal.jsonl").write_bytes(journal_of(rows))


def opening_times(page: Path, repeats: int) -> list[tuple[float, float]]:
    """Seconds from asking for the page until it can be used, and until every chart is drawn."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    times = []
    with sync_playwright() as playwright:
        options = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        for _ in range(repeats):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            tab = context.new_page()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-complete]", state="attached", timeout=60_000)
            marks = [tab.get_attribute("html", f"data-{name}") for name in ("ready", "complete")]
            times.append((int(marks[0] or 0) / 1000, int(marks[1] or 0) / 1000))
            context.close()
        browser.close()
    return times


def measure(store: Path, page: Path, layout: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Make the page of one store and open it."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", MAKE, str(store), str(page)], check=True)
    made = time.perf_counter() - started
    usable, complete = zip(*opening_times(page, repeats), strict=True)
    size = page.stat().st_size
    return {
        "checkpoints": layout["runs"] * layout["steps"],
        "bytes": size,
        "most_bytes": layout["most_bytes"],
        "usable_seconds": statistics.median(usable),
        "usable_seconds_of_every_repeat": usable,
        "opening_seconds": statistics.median(complete),
        "opening_seconds_of_every_repeat": complete,
        "most_seconds": MOST_SECONDS,
        "making_seconds": round(made, 2),
        "most_making_seconds": MOST_MAKING,
        "within_goal": size <= layout["most_bytes"]
        and statistics.median(complete) <= MOST_SECONDS
        and made <= MOST_MAKING,
    }


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", action="append", choices=LAYOUTS, help="some of the layouts")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.only or LAYOUTS:
            layout = LAYOUTS[name]
            store = Path(temporary) / str(layout["runs"])
            write_store(store, layout["runs"], layout["steps"])
            found[name] = measure(store, store.with_suffix(".html"), layout, arguments.repeats)
            print(
                f"{name}: {found[name]['bytes'] / 1e6:.2f} MB, can be used after "
                f"{found[name]['usable_seconds']:.2f} s, has every chart after "
                f"{found[name]['opening_seconds']:.2f} s, made in {found[name]['making_seconds']} s"
            )
    results = {
        "command": " ".join(["python", "benchmarks/report.py", *sys.argv[1:]]),
        "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
        "load_average_at_end": [round(load, 2) for load in os.getloadavg()],
        "layouts": found,
    }
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
