"""Steps until one wrong label is memorized, by networks that are equally well calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rote.errors import InputError
from rote.studies.figures.one_sample import WRONG_SEEN, bars_of, cases_of, count, said
from rote.studies.markdown import number, table
from rote.studies.networks import (
    ALL,
    NETWORKS,
    by_group,
    mean_with_interval,
    pairs,
    steps_on_one,
)
from rote.studies.study import Brief, Record, Study, of_group, verdict_of

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from rote.store import RunTable
    from rote.studies.networks import Network
    from rote.studies.pool import Pool

PREDICTED, SCALED, HALF = "predicted", "predicted, T in the objective", "probability of ½"
WAYS = {
    PREDICTED: "the label is predicted, which no temperature changes",
    SCALED: "it is predicted by the scaled network, trained as such",
    HALF: "its scaled probability is at least ½",
}


def examine(pool: Pool, table: RunTable, data_dir: Path | None) -> Record:
    """Count the steps of both networks of every pair, scaled to the same calibration.

    The wrong label is that of a training sample, on whose right label both were trained.
    """
    return {"pairs": [_pair(clean, noisy) for clean, noisy in pairs(pool, table, data_dir)]}


def _pair(clean: Network, noisy: Network) -> Record:
    from rote.probe import expected_calibration_error

    images, classes = noisy.tested()
    before = [logits_of(network.model, images) for network in (clean, noisy)]
    temperatures = equalized(before[0], before[1], classes)
    scaled = [logits / by for logits, by in zip(before, temperatures, strict=True)]
    samples = cases_of(noisy, np.random.default_rng(0))[WRONG_SEEN]
    return {
        "run": noisy.run,
        "clean": clean.numbers,
        "noisy": noisy.numbers,
        "temperatures": [round(temperature, 5) for temperature in temperatures],
        "errors": [
            [round(expected_calibration_error(found, classes), 5) for found in logits]
            for logits in (before, scaled)
        ],
        "steps": {
            way: [
                [_steps(network.model, way, by, *sample) for sample in samples]
                for network, by in zip((clean, noisy), temperatures, strict=True)
            ]
            for way in WAYS
        },
    }


def equalized(clean: Tensor, noisy: Tensor, classes: Tensor) -> tuple[float, float]:
    """Temperatures at which logits have the same calibration error.

    As in the paper, the noisy-trained network is brought to the error of the other; where no
    temperature does, it is calibrated as well as it can be, and the other brought to that error.
    """
    from rote.probe import expected_calibration_error, fit_temperature, temperature_for_error

    try:
        target = expected_calibration_error(clean, classes)
        return 1.0, temperature_for_error(noisy, classes, target)
    except InputError:
        best = fit_temperature(noisy, classes)
        target = expected_calibration_error(noisy / best, classes)
        return temperature_for_error(clean, classes, target, tolerance=0.02), best


def _steps(model: nn.Module, way: str, temperature: float, image: Tensor, label: int) -> int:
    from torch.nn.functional import cross_entropy

    if way == SCALED:
        return steps_on_one(
            model, image, label, loss_fn=lambda out, y: cross_entropy(out / temperature, y)
        )
    least = 0.5 if way == HALF else 0.0
    return steps_on_one(model, image, label, temperature=temperature, min_probability=least)


def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    """Return the logits of all images, a part at a time."""
    import torch

    with torch.no_grad():
        return torch.cat([model(part) for part in torch.split(images, 256)])


def _group(found: list[Record]) -> Record:
    """Means over pairs, with intervals over these."""
    steps = {way: np.array([pair["steps"][way] for pair in found]).mean(axis=2) for way in WAYS}
    return {
        "pairs": len(found),
        "errors": np.mean([pair["errors"] for pair in found], axis=0).tolist(),
        "temperatures": np.mean([pair["temperatures"] for pair in found], axis=0).tolist(),
        "ways": {
            way: {
                "clean": mean_with_interval(values[:, 0]),
                "noisy": mean_with_interval(values[:, 1]),
                "difference": mean_with_interval(values[:, 0] - values[:, 1]),
            }
            for way, values in steps.items()
        },
    }


def text(record: Record) -> str:
    """Return a row for each way to count and group of pairs."""
    return table(
        "pool",
        ["pairs", "steps until", "trained on right labels", "trained on noisy labels"],
        {
            f"{name} | {said(group, numbers)} | {WAYS[way]}": [
                count(found["clean"]),
                count(found["noisy"]),
            ]
            for name, pool in record["pools"].items()
            for group, numbers in pool.items()
            for way, found in numbers["ways"].items()
        },
    )


def finding(record: Record) -> str:
    """How calibration was made equal, and where the order stays."""
    parts = []
    for pool in record["pools"].values():
        before, after = (" and ".join(map(number, errors)) for errors in pool[ALL]["errors"])
        by = " and ".join(map(number, pool[ALL]["temperatures"]))
        steps = ". ".join(
            f"{said(group, numbers).capitalize()}: "
            + "; ".join(
                f"{way} {found['clean'][0]:.1f} against {found['noisy'][0]:.1f}"
                for way, found in numbers["ways"].items()
            )
            for group, numbers in pool.items()
        )
        parts.append(
            f"Mean calibration errors of {before} become {after} at a mean T of {by}. Mean steps "
            f"to a wrong label, right-trained against noisy-trained. {steps}. {_verdict(pool)}"
        )
    return " ".join(parts)


def _verdict(groups: Record) -> str:
    held = [name for name, of in groups.items() if _holds(of)]
    if not held:
        return "Unlike in the paper, right-trained networks do not resist longer."
    only = "" if ALL in held else f", but only in the group “{held[0]}”"
    return f"As in the paper, right-trained networks resist longer{only}."


def _holds(group: Record) -> bool:
    return all((group["ways"][way]["difference"][1] or 0) > 0 for way in (SCALED, HALF))


def brief(record: Record) -> Brief:
    """Return the mean steps of both, at equal calibration."""
    groups = [of for pool in record["pools"].values() for of in pool.values() if of["pairs"]]
    if not groups:
        return Brief("not known", None)
    found = groups[0]["ways"][SCALED]
    ours = f"{found['clean'][0]:.1f} against {found['noisy'][0]:.1f} steps"
    return Brief(ours, verdict_of(list(map(_holds, groups))))


STUDY = Study(
    name="calibration",
    title="steps to memorize one wrong label, at equal calibration",
    measure=by_group(_group),
    text=text,
    finding=finding,
    wants=of_group(NETWORKS),
    draw=bars_of("ways"),
    paper=("fig:calibration",),
    examine=examine,
    cause="The same groups of pairs as for one sample: the order is that of the paper against "
    "networks that have memorized their labels, also at equal calibration. The committed steps "
    "were still counted on wrong labels of unseen samples; a new run counts those of training "
    "samples.",
    brief=brief,
)
