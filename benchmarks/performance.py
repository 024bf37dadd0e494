"""docs/performance.md: every figure of benchmarks/*.json beside its goal.

python benchmarks/performance.py
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
HEAD = """# What it costs

Each figure is measured by a script in `benchmarks/` and kept in the JSON file beside it.
`make bench` measures all of them again and rewrites this page. A ratio (÷) compares two times of
one run, taken in turns by one thread with nothing else running, on two cores of a virtual machine
without a GPU.

"""
PROBE = {
    "probe_over_step": "one live probe ÷ one training step",
    "probe_with_plain_over_step": "one probe with live and plain step ÷ one training step",
    "verified_probe_over_probe": "a probe with `verify=True` ÷ one without",
    "epoch_with_probe_over_without": "an epoch of 391 steps with a probe ÷ one without (computed)",
    "extra_memory_over_state": "extra peak memory ÷ parameters, buffers and optimizer state",
}
FROZEN = {
    "probe_over_step": "one live probe ÷ one training step",
    "track_over_step": "`rote.track` ÷ one training step",
    "extra_memory_over_trained_state": "extra peak memory ÷ trained parameters and their state",
    "micro_batch_peak_over_step": "peak memory of a probe in micro-batches ÷ of a training step",
}
FROZEN_BASE = """\
**Why 1.4 steps cannot be reached with a frozen base.** A probe is a training step on S̃ (forward,
backward, step) and one more forward pass, since the loss after the step has to be measured. Where
everything is trained, each layer multiplies three times in a step: forward, for the gradient of its
input, and for the gradient of its weights. A forward pass is then 1/3 of a step, and a probe costs
at least 1 + 1/3. A frozen layer needs no gradient of its weights. Here, 12 frozen layers multiply
12 times forward and 11 times backward (the first input needs no gradient), so that a forward pass
is up to 12/23 = 52 % of a step. Measured are {share:.1f} %, since a step also has the adapters and
AdamW. So a probe takes at least {least:.3f} steps, and rote's takes {above:.3f} times as long as
that. Only a loss on fewer samples, or in lower precision, would cost less, and it would be another
reading.
"""
NETWORKS = {
    "cnn": "cnn",
    "resnet18": "ResNet18",
    "cnn_nchw": "cnn, NCHW",
    "resnet18_nchw": "ResNet18, NCHW",
}
Row = tuple[str, str, str, bool]


def ratio(what: str, found: float, goal: float) -> Row:
    return what, f"{found:.3f}", f"≤ {goal:g}", found <= goal


def sized(layout: str) -> str:
    """`5000 runs x 200` as people write it."""
    return re.sub(r"\d{4,}", lambda found: f"{int(found[0]):,}", layout).replace(" x ", " × ")


def probe(figures: dict[str, Any]) -> Iterator[Row]:
    for key in (name for name in PROBE if name in figures["goals"]):
        for name, network in NETWORKS.items():
            found = figures["results"][name]
            where = add_least(network, found) if key == "probe_over_step" else network
            yield ratio(f"{PROBE[key]}: {where}", found[key], figures["goals"][key])
    base, sequences = (figures["results"][name] for name in ("frozen_base", "long_sequences"))
    networks = {"201 M frozen, 2 M trained parameters": base, "long sequences": sequences}
    for key, what in FROZEN.items():
        for network, found in networks.items():
            if key in found:
                where = add_least(network, found) if key == "probe_over_step" else network
                yield ratio(f"{what}: {where}", found[key], figures["frozen_goals"][key])


def add_least(network: str, found: dict[str, float]) -> str:
    """Say beside a network what no probe can be cheaper than."""
    return f"{network} (a step and one more forward pass: {found['least_possible_over_step']:.3f})"


def explain_frozen_base(figures: dict[str, Any]) -> str:
    """Return the reason why a probe of a frozen base cannot take 1.4 steps."""
    base = figures["results"]["frozen_base"]
    least, above = base["least_possible_over_step"], base["probe_over_least_possible"]
    return FROZEN_BASE.format(share=100 * (least - 1), least=least, above=above)


def loop(figures: dict[str, Any]) -> Iterator[Row]:
    names = {
        "epoch_over_bare": "an epoch of `rote train` ÷ a bare loop",
        "tracked_epoch_over_bare": "the same with a probe",
    }
    for network, goals in figures["goals"].items():
        for key in (name for name in names if name in goals):
            where = network.replace("_", " ")
            yield ratio(f"{names[key]}: {where}", figures["results"][network][key], goals[key])


def signals(figures: dict[str, Any]) -> Iterator[Row]:
    for key, goal in figures["goals"].items():
        what = "all cheap ones together" if key == "cheap" else f"`{key}`"
        found = figures["results"][key]
        if "steps" in found:  # it costs the same, however long an epoch is
            short = found["over_bare_of_48"]
            what += f", in an epoch of {found['steps']} steps (of 48 steps {short:.3f})"
        yield ratio(what, found["over_bare"], goal)


def select(figures: dict[str, Any]) -> Iterator[Row]:
    for name, found in figures["layouts"].items():
        what = f"read {sized(name)} readings and select, the whole process"
        taken = f"{found['seconds']:.1f} s, {found['peak_bytes'] / 2**20:.0f} MiB"
        goal = f"≤ {found['most_seconds']:g} s, 1 GiB"
        yield what, taken, goal, found["within_goal"]


def report(figures: dict[str, Any]) -> Iterator[Row]:
    for name, found in figures["layouts"].items():
        what = f"{sized(name)} readings: made; size; drawn in the browser"
        taken = (
            f"{found['making_seconds']:.1f} s; {found['bytes'] / 1e6:.1f} MB; "
            f"{found['opening_seconds']:.1f} s"
        )
        goal = (
            f"≤ {found['most_making_seconds']:g} s; {found['most_bytes'] / 1e6:g} MB; "
            f"{found['most_seconds']:g} s"
        )
        yield what, taken, goal, found["within_goal"]


def posterior(figures: dict[str, Any]) -> Iterator[Row]:
    taken = f"{figures['seconds']:.1f} s, {figures['peak_bytes'] / 2**20:.0f} MiB"
    goal = f"≤ {figures['goal']['seconds']:g} s, {figures['goal']['peak_bytes'] / 2**30:g} GiB"
    yield (
        "posterior, 1,000 runs × 100 checkpoints × 512 samples",
        taken,
        goal,
        figures["within_goal"],
    )


def sweep(figures: dict[str, Any]) -> Iterator[Row]:
    sharing, listing = figures["sharing"], figures["listing"]
    what = "8 equal runs in 2 processes ÷ one after the other"
    yield ratio(what, sharing["ratio"], sharing["goal"])
    taken, goal = listing["median_seconds"], listing["goal_seconds"]
    yield "list 10,000 runs of a sweep", f"{taken:.2f} s", f"≤ {goal:g} s", taken <= goal


def theory(figures: dict[str, Any]) -> Iterator[Row]:
    what = "all bounds, n = 1000, 5 noise levels, 200 values of k̃ ÷ one eigendecomposition"
    yield ratio(what, figures["bounds_over_eigendecomposition"], figures["goal"])


SECTIONS = {
    probe: "A probe",
    loop: "A training loop",
    signals: "Other signals, an epoch with them ÷ a bare one",
    select: "Selecting",
    posterior: "The posterior",
    report: "The page",
    sweep: "Many runs",
    theory: "Theory",
}
NOTES = {probe: explain_frozen_base}
"""What follows the table of a section."""


def page() -> str:
    """Return the page, from the committed figures."""
    lines = []
    for section, title in SECTIONS.items():
        name = section.__name__
        lines += [f"## {title}", "", f"`python benchmarks/{name}.py`", ""]
        lines += ["| what | measured | goal | |", "|---|---|---|---|"]
        figures = json.loads((HERE / f"{name}.json").read_text())
        for what, found, goal, is_met in section(figures):
            lines.append(f"| {what} | {found} | {goal} | {'' if is_met else '**missed**'} |")
        lines.append("")
        if section in NOTES:
            lines.append(NOTES[section](figures))
    return HEAD + "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"Saved {PAGE}.")
