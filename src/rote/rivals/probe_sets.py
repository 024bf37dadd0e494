"""ζ on other sets S̃ in the same run: of several sizes and seeds, seen or unseen in training.

A probe leaves no trace, so one run shows what the size of S̃, its samples and its labels do to ζ
(Forouzesh, Sedghi and Thiran, ICLR 2023, appendix on the size of S̃).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from rote.arguments import check_choice, check_integer
from rote.errors import InputError
from rote.probe import Inputs, Probe, count_samples, cross_entropy, take
from rote.records import Column
from rote.tracking import RunningMean, Signal, SignalContext

SIZES = (10, 32, 128, 512)
ORIGINS = ("holdout", "training")


class ProbeSets(Signal):
    """ζ of one probe per size, seed and origin, as ``zeta_<origin>_<size>_<seed>``.

    Sets of one seed and origin are nested: the larger one begins with the samples and labels of
    the smaller one. A reading costs a probe for every set.

    Args:
        sizes: of the sets.
        seeds: the number of draws of samples and labels per size.
        origins: ``holdout`` and ``training`` (samples that are trained on; runs of a spec only).

    Raises:
        InputError: if a size or the number of seeds is not positive, or an origin is unknown.
    """

    name = "probe_sets"

    def __init__(
        self,
        sizes: Sequence[int] = SIZES,
        seeds: int = 2,
        origins: Sequence[str] = ORIGINS[:1],
    ) -> None:
        self._sizes = tuple(check_integer("sizes", size, least=1) for size in sizes)
        self._seeds = check_integer("seeds", seeds, least=1)
        for origin in origins:
            check_choice("origins", origin, ORIGINS)
        self._origins = tuple(origins)

    def start(self, context: SignalContext) -> None:
        """Draw the sets; sizes larger than what there is are left out.

        Raises:
            InputError: if the run has no fixed holdout, or its training samples are unknown.
        """
        self._context = context
        self._sets: dict[str, tuple[Inputs, Tensor]] = {}
        for origin, seed in product(self._origins, range(self._seeds)):
            self._sets |= self._draw(origin, seed)
        self._means = {name: RunningMean() for name in self._sets}
        self.columns = tuple(_make_column(name) for name in self._sets)
        self._probe = Probe(
            context.model,
            context.optimizer,
            context.num_classes,
            context.loss_fn or cross_entropy,
            replace(context.policy, plain=None),
        )

    def _draw(self, origin: str, seed: int) -> dict[str, tuple[Inputs, Tensor]]:
        known, context = self._count(origin), self._context
        sizes = [size for size in self._sizes if size <= known]
        if not sizes:
            return {}
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(known, generator=generator)[: max(sizes)]
        labels = torch.randint(context.num_classes, (len(chosen),), generator=generator)
        labels = labels.to(context.labels.device)
        samples = self._take_samples(origin, chosen)
        return {
            f"zeta_{origin}_{size}_{seed}": (take(samples, slice(size)), labels[:size])
            for size in sizes
        }

    def _count(self, origin: str) -> int:
        if origin == "training":
            known = self._context.training_set
            if known is None or known.samples is None:
                raise InputError(
                    "Signal `probe_sets` takes training samples from runs of a spec only. Leave "
                    "'training' out of its `origins`."
                )
            return len(known.labels)
        if self._context.holdout is None:
            raise InputError(
                "Signal `probe_sets` needs a fixed holdout. Pass `inputs=` as samples, not as a "
                "function that brings new ones."
            )
        return count_samples(self._context.holdout)

    def _take_samples(self, origin: str, chosen: Tensor) -> Inputs:
        if origin == "training":
            assert self._context.training_set is not None
            assert self._context.training_set.samples is not None
            return self._context.training_set.samples(chosen)
        assert self._context.holdout is not None
        return take(self._context.holdout, chosen)

    def read(self, epoch: int) -> Mapping[str, float]:
        """Return ζ of every set."""
        rule = self._context.policy.optimizer
        values: dict[str, float] = {}
        for name, (inputs, labels) in self._sets.items():
            found = self._probe.measure(inputs, labels)
            drop = found.loss_before - found.losses_after[rule]
            values[name] = self._means[name].update(drop, epoch)
        return values

    def state_dict(self) -> dict[str, Any]:
        """Return the running means."""
        return {name: mean.state_dict() for name, mean in self._means.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        for name, mean in self._means.items():
            mean.load_state_dict(state[name])


def _make_column(name: str) -> Column:
    _, origin, size, seed = name.split("_")
    label = f"ζ on {size} samples of the {origin} set, seed {seed}"
    return Column(name, label, "zeta", better="lower")


SIGNAL = ProbeSets
