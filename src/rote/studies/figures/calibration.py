"""Steps to memorize one wrong label, for networks with equal calibration errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rote.errors import InputError
from rote.studies.figures.one_sample import (
    WRONG_SEEN,
    choose_cases,
    count,
    describe_group,
    describe_steps,
    list_judged,
    make_curves,
)
from rote.studies.markdown import format_number, write_table
from rote.studies.networks import (
    ALL,
    NETWORKS,
    average_with_interval,
    compute_curves,
    count_steps_on_one,
    load_pairs,
    measure_by_group,
)
from rote.studies.study import Brief, Record, Study, judge_claim, match_group

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from rote.store import RunTable
    from rote.studies.networks import Network
    from rote.studies.pool import Pool

PREDICTED, SCALED, HALF = "predicted", "predicted, T in the objective", "probability of ½"
WAYS = {
    PREDICTED: "the label is predicted (no temperature changes this)",
    SCALED: "the label is predicted, with the temperature in the training objective",
    HALF: "the scaled probability of the label is at least ½",
}


def examine(pool: Pool, table: RunTable, data_dir: Path | None) -> Record:
    """Count the steps of both networks of every pair, scaled to the same calibration.

    The wrong label belongs to a training sample; both networks were trained on its right label.
    """
    return {
        "pairs": [
            _compare_pair(clean, noisy, pool.one_sample_lr)
            for clean, noisy in load_pairs(pool, table, data_dir)
        ]
    }


def _compare_pair(clean: Network, noisy: Network, lr: float) -> Record:
    from rote.probe import measure_calibration_error

    images, classes = noisy.load_test_set()
    before = [compute_logits(network.model, images) for network in (clean, noisy)]
    temperatures = equalize_calibration(before[0], before[1], classes)
    scaled = [logits / by for logits, by in zip(before, temperatures, strict=True)]
    samples = choose_cases(noisy, np.random.default_rng(0))[WRONG_SEEN]
    return {
        "run": noisy.run,
        "clean": clean.numbers,
        "noisy": noisy.numbers,
        "temperatures": [round(temperature, 5) for temperature in temperatures],
        "errors": [
            [round(measure_calibration_error(found, classes), 5) for found in logits]
            for logits in (before, scaled)
        ],
        "steps": {
            way: [
                [_count_steps(network.model, way, by, *sample, lr=lr) for sample in samples]
                for network, by in zip((clean, noisy), temperatures, strict=True)
            ]
            for way in WAYS
        },
    }


def equalize_calibration(clean: Tensor, noisy: Tensor, classes: Tensor) -> tuple[float, float]:
    """Return temperatures at which logits have the same calibration error.

    As in the paper, the noisy-trained network is scaled to the error of the other. If no
    temperature achieves that, it is calibrated as well as possible, and the other network is
    scaled to its error.
    """
    from rote.probe import find_temperature_for_error, fit_temperature, measure_calibration_error

    try:
        target = measure_calibration_error(clean, classes)
        return 1.0, find_temperature_for_error(noisy, classes, target)
    except InputError:
        best = fit_temperature(noisy, classes)
        target = measure_calibration_error(noisy / best, classes)
        return find_temperature_for_error(clean, classes, target, tolerance=0.02), best


def _count_steps(
    model: nn.Module, way: str, temperature: float, image: Tensor, label: int, *, lr: float
) -> int:
    from torch.nn.functional import cross_entropy

    if way == SCALED:
        return count_steps_on_one(
            model, image, label, lr=lr, loss_fn=lambda out, y: cross_entropy(out / temperature, y)
        )
    least = 0.5 if way == HALF else 0.0
    return count_steps_on_one(
        model, image, label, lr=lr, temperature=temperature, min_probability=least
    )


def compute_logits(model: nn.Module, images: Tensor) -> Tensor:
    """Return the logits of all images, computed in batches."""
    import torch

    with torch.no_grad():
        return torch.cat([model(part) for part in torch.split(images, 256)])


def _group(found: list[Record]) -> Record:
    """Return means over pairs, with intervals."""
    steps = {way: np.array([pair["steps"][way] for pair in found]) for way in WAYS}
    return {
        "pairs": len(found),
        "errors": np.mean([pair["errors"] for pair in found], axis=0).tolist(),
        "temperatures": np.mean([pair["temperatures"] for pair in found], axis=0).tolist(),
        "ways": {way: _summarize_steps(of_way) for way, of_way in steps.items()},
    }


def _summarize_steps(steps: np.ndarray) -> Record:
    """Return an array of shape (pairs, 2 for clean and noisy, samples)."""
    clean, noisy = steps.mean(axis=2).T
    return {
        "clean": average_with_interval(clean),
        "noisy": average_with_interval(noisy),
        "difference": average_with_interval(clean - noisy),
        "curves": compute_curves(steps),
    }


def write_text(record: Record) -> str:
    """Return a row for each counting criterion and group of pairs."""
    return write_table(
        "pool",
        ["pairs", "steps until", "trained on right labels", "trained on noisy labels"],
        {
            f"{name} | {describe_group(group, numbers)} | {WAYS[way]}": [
                count(found["clean"]),
                count(found["noisy"]),
            ]
            for name, pool in record["pools"].items()
            for group, numbers in pool.items()
            for way, found in numbers["ways"].items()
        },
    )


def write_finding(record: Record) -> str:
    """Return how calibration was equalized, and for which groups the paper's order holds."""
    parts = []
    for pool in record["pools"].values():
        before, after = (" and ".join(map(format_number, errors)) for errors in pool[ALL]["errors"])
        by = " and ".join(map(format_number, pool[ALL]["temperatures"]))
        parts.append(
            f"Mean calibration errors of {before} become {after} at a mean T of {by}. Mean steps "
            "to memorize a wrong label, trained on right labels vs. on noisy labels. "
            f"{describe_steps(pool, 'ways')}. {_write_verdict(pool)}"
        )
    return " ".join(parts) or "No network is clearly better than chance."


def _write_verdict(groups: Record) -> str:
    held = [name for name, of in groups.items() if _holds(of)]
    if not held:
        return "Unlike in the paper, networks trained on right labels do not resist longer."
    only = "" if ALL in held else f", but only in the group “{held[0]}”"
    return f"As in the paper, networks trained on right labels resist longer{only}."


def _holds(group: Record) -> bool:
    return all((group["ways"][way]["difference"][1] or 0) > 0 for way in (SCALED, HALF))


def write_brief(record: Record) -> Brief:
    """Return the mean steps of both networks at equal calibration."""
    groups = list_judged(record, "ways")
    if not groups:
        return Brief("too few networks above chance", None)
    found = groups[0]["ways"][SCALED]
    ours = f"{found['clean'][0]:.1f} against {found['noisy'][0]:.1f} steps"
    return Brief(ours, judge_claim(list(map(_holds, groups))))


STUDY = Study(
    name="calibration",
    title="steps to memorize one wrong label, at equal calibration",
    measure=measure_by_group(_group),
    text=write_text,
    finding=write_finding,
    wants=match_group(NETWORKS),
    draw=make_curves("ways"),
    paper=("fig:calibration",),
    examine=examine,
    cause="The groups of pairs are those of the study of one sample. Compared with networks that "
    "have memorized their labels, the order is that of the paper, also at equal calibration. The "
    "committed steps were counted on wrong labels of unseen samples; a new run counts them on "
    "training samples.",
    cause_at_medium=(
        "Networks trained on noisy labels are less well calibrated, and equal calibration makes "
        "the difference smaller, but does not remove it."
    ),
    brief=write_brief,
)
