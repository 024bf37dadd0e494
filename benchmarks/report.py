"""The report: how long it takes to write, how large it is, how fast it opens in Chromium.

Writes two stores (50 and 500 runs of 200 checkpoints) into a temporary directory, makes the page
of each in a process of its own, opens it five times in headless Chromium, prints the figures and
writes them to ``benchmarks/report.json``::

    python benchmarks/report.py
"""

import argparse
import json
import math
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
from rote.store import line_of_reading

STEPS = 200
LAYOUTS = {
    "50 runs x 200": {"runs": 50, "most_bytes": 1_500_000, "most_seconds": 3.0},
    "500 runs x 200": {"runs": 500, "most_bytes": 10_000_000, "most_seconds": 3.0},
}
MAKE = "import sys, rote; rote.report(sys.argv[1], sys.argv[2])"


def reading(step: int, speed: float, rng: np.random.Generator) -> Reading:
    """What a run of `rote train` records, in full precision."""
    memorized = 1 - math.exp(-speed * step / 40)
    learned = 1 - math.exp(-step / 5)
    zeta, plain = (memorized * speed * factor + 0.01 * rng.random() for factor in (0.4, 0.1))
    metrics = {
        "train_accuracy": 0.5 * learned + 0.45 * memorized,
        "test_accuracy": 0.9 * learned - 0.3 * memorized + 0.01 * rng.random(),
        "clean_accuracy": learned,
        "noisy_accuracy": memorized,
        "lr": 0.1 * math.cos(step / 130),
        "train_loss": 2.3 - learned + 0.1 * rng.random(),
    }
    losses = 2.3 + rng.random(), 2.2 + rng.random(), 2.25 + rng.random()
    return Reading(
        step,
        losses[0],
        losses[1],
        losses[0] - losses[1],
        zeta,
        zeta / 2.3,
        loss_after_plain=losses[2],
        drop_plain=losses[0] - losses[2],
        susceptibility_plain=plain,
        susceptibility_plain_relative=plain / 2.3,
        validation_accuracy=round(500 * metrics["test_accuracy"]) / 500,
        seconds=rng.random(),
        metrics=metrics,
    )


def write_store(store: Path, runs: int) -> None:
    """Write runs of ``STEPS`` checkpoints."""
    rng = np.random.default_rng(0)
    for number in range(runs):
        run = store / f"run-{number:03d}"
        run.mkdir(parents=True)
        settings = {"lr": 10.0 ** -rng.integers(1, 4), "momentum": 0.9}
        description = {
            "schema": 1,
            "name": run.name,
            "num_classes": 10,
            "seed": number,
            "pool": None,
            "optimizer": {"class": "torch.optim.sgd.SGD", "settings": settings},
        }
        (run / "run.json").write_text(json.dumps(description))
        speed = rng.uniform(0.05, 0.5)
        lines = [line_of_reading(reading(step, speed, rng)) for step in range(1, STEPS + 1)]
        (run / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


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
        "checkpoints": layout["runs"] * STEPS,
        "bytes": size,
        "most_bytes": layout["most_bytes"],
        "usable_seconds": statistics.median(usable),
        "usable_seconds_of_every_repeat": usable,
        "opening_seconds": statistics.median(complete),
        "opening_seconds_of_every_repeat": complete,
        "most_seconds": layout["most_seconds"],
        "making_seconds": round(made, 2),
        "within_goal": size <= layout["most_bytes"]
        and statistics.median(complete) <= layout["most_seconds"],
    }


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, layout in LAYOUTS.items():
            store = Path(temporary) / str(layout["runs"])
            write_store(store, layout["runs"])
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
