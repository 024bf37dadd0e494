"""How far training moves the Gram matrix: the lemma on ‖H(t) − H(0)‖, by width."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from rote.studies.chart import draw_panels
from rote.studies.markdown import format_number, write_table
from rote.studies.study import Brief, Record, Study, Tables, judge_claim

_SAMPLES, _ETA, _KAPPA = 100, 0.05, 1.0
_STEPS, _RANDOM_STEPS = 100, 100
_WIDTHS = tuple(2**power for power in range(6, 13))
_DRAWS = 3
_RATE = -0.5
"""The exponent of the width m in the lemma."""

_FIRST, _SECOND = "k steps", "k + k̃ steps"


def measure(recorded: Record | Tables) -> Record:
    """Return the recorded drift, or train networks of every width on scikit-learn's digits."""
    if isinstance(recorded, Mapping):
        return recorded
    return {"widths": {str(width): _measure_width(width) for width in _WIDTHS}}


def _measure_width(width: int) -> Record:
    """Return the mean drift in both phases, relative to ‖H(0)‖, over draws."""
    from rote.theory import binary_labels, random_labels, simulate
    from rote.workloads import load_arrays

    _, x, classes = load_arrays("digits", None)
    found: dict[str, list[float]] = {_FIRST: [], _SECOND: []}
    for draw in range(_DRAWS):
        rng = np.random.default_rng(draw)
        chosen = rng.permutation(len(classes))[:_SAMPLES]
        samples = x[chosen].reshape(_SAMPLES, -1).astype(np.float64)
        samples /= np.linalg.norm(samples, axis=1, keepdims=True)
        y = binary_labels(classes[chosen]).y
        trained = simulate(
            samples,
            y,
            random_labels(len(y), draws=1, rng=rng)[0],
            width=width,
            eta=_ETA,
            k=_STEPS,
            k_tilde=_RANDOM_STEPS,
            kappa=_KAPPA,
            rng=rng,
        )
        size = float(np.linalg.norm(trained.before[0].gram(samples)))
        for name, drift in zip(found, trained.drifts(samples), strict=True):
            found[name].append(drift / size)
    return {name: fmean(drifts) for name, drifts in found.items()}


def _fit_exponent(record: Record, phase: str) -> float:
    """Return the slope of the log drift over the log width."""
    widths = np.log([float(width) for width in record["widths"]])
    drifts = np.log([found[phase] for found in record["widths"].values()])
    return float(np.polyfit(widths, drifts, 1)[0])


def write_text(record: Record) -> str:
    """Return a row for each width."""
    rows = {width: [f"{v:.4f}" for v in found.values()] for width, found in _list_widths(record)}
    columns = [f"‖H(t) − H(0)‖ ÷ ‖H(0)‖ after {phase}" for phase in (_FIRST, _SECOND)]
    return write_table("width m", columns, rows)


def _list_widths(record: Record) -> list[tuple[str, dict[str, float]]]:
    return list(record["widths"].items())


def write_finding(record: Record) -> str:
    """Return the exponents of the width."""
    each = " and ".join(
        f"{format_number(_fit_exponent(record, phase))} after {phase}"
        for phase in (_FIRST, _SECOND)
    )
    return (
        f"The drift scales with the width m as m to the power of {each}; the lemma bounds both "
        f"exponents by {format_number(_RATE)}. ({_SAMPLES} digits of norm 1, parity as the label, "
        f"η = {_ETA:g}, k = {_STEPS}, k̃ = {_RANDOM_STEPS}, κ = {_KAPPA:g}, {_DRAWS} draws.)"
    )


def write_brief(record: Record) -> Brief:
    """Return the exponents beside the lemma's."""
    found = [_fit_exponent(record, phase) for phase in (_FIRST, _SECOND)]
    near = [exponent <= _RATE + 0.1 for exponent in found]
    return Brief(
        f"m to the power of {format_number(found[0])} and {format_number(found[1])}",
        judge_claim(near),
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the drift over the width."""
    rows = [
        {"pool": "digits, parity", "width": int(width), "drift": drift, "after": f"after {phase}"}
        for width, found in _list_widths(record)
        for phase, drift in found.items()
    ]
    titles = ("width m", "‖H(t) − H(0)‖ ÷ ‖H(0)‖")
    return draw_panels(rows, "line", "width:O", "drift:Q", titles=titles, color="after:N")


STUDY = Study(
    name="gram-drift",
    title="how far training moves the Gram matrix, by width",
    measure=measure,
    text=write_text,
    finding=write_finding,
    wants=None,
    draw=draw,
    cause="The lemma requires widths far beyond those of real networks (m of the order of n⁶); "
    "its rate in m already shows at practical widths.",
    brief=write_brief,
)
