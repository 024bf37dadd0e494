"""The figures and tables of the paper by label, with the numbers that it reports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rote.studies.pool import Pool


ANY_LEVEL = "any"


class Shown(NamedTuple):
    """A figure or table of the paper.

    Attributes:
        number: in the paper, such as ``Figure 1``.
        what: what it shows.
        reported: the numbers that the paper reports.
        data: the data sets of the figure; empty if all pools of a study count.
        level: the rate of label noise; None for real noise from people or labeling rules, and
            ANY_LEVEL if the figure compares rates.
        noise: the kind of label noise.
        labels: the name of the labels that people gave to CIFAR-10N.
    """

    number: str
    what: str
    reported: str
    data: tuple[str, ...] = ()
    level: float | str | None = 0.5
    noise: str | None = "symmetric-inclusive"
    labels: str | None = None

    @property
    def name(self) -> str:
        """The name for commands and files, such as ``figure-1``."""
        return self.number.lower().replace(" ", "-")

    def is_about(self, pool: Pool) -> bool:
        """Return whether a pool has the figure's data and label noise."""
        return not self.data or (
            pool.data in self.data
            and pool.given_labels in (None, self.labels)
            and any(
                kind == self.noise and self.level in (level, ANY_LEVEL)
                for kind, level in pool.noises
            )
        )


def find_label(name: str) -> str | None:
    """Return the label of a figure by its number or label; None if there is no such figure.

    Example:
        >>> find_label("figure-1"), find_label("Figure 1"), find_label("fig:main"), find_label("x")
        ('fig:figure1', 'fig:figure1', 'fig:main', None)
    """
    word = re.sub(r"[\s_]+", "-", name.strip().lower())
    return next((label for label, shown in PAPER.items() if word in (label, shown.name)), None)


_MNIST, _FASHION, _CIFAR10 = ("mnist",), ("fashion_mnist",), ("cifar10",)
_SVHN, _CIFAR100, _TINY = ("svhn",), ("cifar100",), ("tiny_imagenet",)

PAPER = {
    "fig:figure1": Shown(
        "Figure 1",
        "Region 1 of an oracle and of ζ, CIFAR-10 50 %",
        "oracle 77.93, ζ 76.15 %",
        _CIFAR10,
    ),
    "fig:motiv": Shown(
        "Figure 2",
        "Steps to memorize one wrong label, after training on right and on noisy labels",
        "99 against 2 steps",
    ),
    "fig:rversusmem": Shown(
        "Figure 3", "ζ against the accuracy on noisy labels, CIFAR-10 50 %", "ρ 0.884", _CIFAR10
    ),
    "fig:filter": Shown(
        "Figure 4",
        "Training against test accuracy, all and ζ below its median, CIFAR-10 50 %",
        "0.608 before, 0.951 after",
        _CIFAR10,
    ),
    "fig:main": Shown(
        "Figure 5",
        "Mean test accuracy in Regions 1 to 4, CIFAR-10 50 %",
        "76.0 / 70.6 / 52.5 / 58.2 %",
        _CIFAR10,
    ),
    "fig:projlnl1": Shown(
        "Figure 6",
        "Bounds of Theorem 2 over k̃ and the noise level (LNL), MNIST",
        "both fall with LNL and k̃",
        _MNIST,
    ),
    "fig:clothing1m_3": Shown(
        "Figure 7",
        "Regions 1 to 4 where people made the noise",
        "CIFAR-10N aggre 87.2 / 85.4 / 77.9 / 78.5 %",
        ("clothing1m", "animal10n", "cifar10n"),
        None,
        None,
        "aggre",
    ),
    "fig:train_slope": Shown("Figure 8", "ζ under plain training, Mixup and NCE+RCE", "ρ 0.636"),
    "fig:advapp": Shown("Figure 9", "Success of the SimBA attack against ζ", "no correlation"),
    "fig:mv": Shown(
        "Figure 10",
        "Accuracy drop, loss mixture and ζ against the accuracy on noisy labels",
        "slightly positive, negative, strongly positive",
        _CIFAR10,
    ),
    "tab:noisyvalsetapp": Shown(
        "Table 1",
        "Kendall τ of noisy validation and of the ζ filter with test accuracy, by set size",
        "10: 0.244, 0.792 · 512: 0.799, 0.876 · 10000: 0.956, 0.914",
        _CIFAR10,
    ),
    "fig:pareto": Shown(
        "Figure 11",
        "That difference over noise level and set size",
        "ζ ahead at high noise and small sets",
        _CIFAR10,
        ANY_LEVEL,
    ),
    "fig:noisysel": Shown(
        "Figure 12",
        "Selection with a label-error detector of X % accuracy",
        "ζ equals X ≈ 96 %",
        _CIFAR10,
    ),
    "fig:motiv2": Shown("Figure 13", "Figure 2 for more samples", "order as in Figure 2"),
    "fig:motivclean": Shown(
        "Figure 14", "Steps to fit one unseen sample with its right label", "order reverses"
    ),
    "fig:calibration": Shown("Figure 15", "Figure 2 at equal calibration", "order as in Figure 2"),
    "fig:mainmnist": Shown(
        "Figure 16", "Regions 1 to 4, MNIST 50 %", "95.4 / 72.7 / 47.7 / – %", _MNIST
    ),
    "fig:filtermnist": Shown(
        "Figure 17", "The ζ filter, MNIST 50 %", "−0.766 before, 0.863 after", _MNIST
    ),
    "fig:mainfmnist": Shown(
        "Figure 18", "Regions 1 to 4, Fashion-MNIST 50 %", "95.8 / 72.0 / 52.7 / – %", _FASHION
    ),
    "fig:filterfmnist": Shown("Figure 19", "The ζ filter, Fashion-MNIST 50 %", "rises", _FASHION),
    "fig:mainsvhn": Shown(
        "Figure 20", "Regions 1 to 4, SVHN 50 %", "88.6 / 66.3 / 53.3 / 85.2 %", _SVHN
    ),
    "fig:figure1svhn": Shown(
        "Figure 21", "Region 1 of an oracle and of ζ, SVHN 50 %", "oracle 87.56, ζ 85.44 %", _SVHN
    ),
    "fig:filtersvhn": Shown("Figure 22", "The ζ filter, SVHN 50 %", "rises", _SVHN),
    "fig:maincifar100": Shown(
        "Figure 23", "Regions 1 to 4, CIFAR-100 50 %", "47.1 / 41.0 / 22.7 / 39.1 %", _CIFAR100
    ),
    "fig:figure1cifar100": Shown(
        "Figure 24",
        "Region 1 of an oracle and of ζ, CIFAR-100 50 %",
        "oracle 51.39, ζ 49.57 %",
        _CIFAR100,
    ),
    "fig:filtercifar100": Shown("Figure 25", "The ζ filter, CIFAR-100 50 %", "rises", _CIFAR100),
    "fig:maintiny": Shown(
        "Figure 26", "Regions 1 to 4, Tiny ImageNet 10 %", "57.5 / 53.3 / 18.5 / 53.3 %", _TINY, 0.1
    ),
    "fig:filtertiny": Shown("Figure 27", "The ζ filter, Tiny ImageNet 10 %", "rises", _TINY, 0.1),
    "fig:fine": Shown(
        "Figure 28",
        "Widths of MobileNet and ShuffleNet, CIFAR-100 50 %",
        "ρ 0.749",
        _CIFAR100,
    ),
    "fig:lr": Shown(
        "Figure 29", "Two schedules, MNIST 50 %", "ρ 0.89 exponential, 0.772 cosine", _MNIST
    ),
    "fig:cifar10less": Shown(
        "Figure 30",
        "ζ against the accuracy on noisy labels, CIFAR-10 10 %",
        "ρ 0.634",
        _CIFAR10,
        0.1,
    ),
    "fig:cifar100less": Shown(
        "Figure 31",
        "ζ against the accuracy on noisy labels, CIFAR-100 10 %",
        "ρ 0.849",
        _CIFAR100,
        0.1,
    ),
    "fig:figure1_less_cifar10": Shown(
        "Figure 32",
        "Region 1 of an oracle and of ζ, CIFAR-10 10 %",
        "oracle 82.93, ζ 86.08 %",
        _CIFAR10,
        0.1,
    ),
    "fig:figure1_less_cifar100": Shown(
        "Figure 33",
        "Region 1 of an oracle and of ζ, CIFAR-100 10 %",
        "oracle 62.61, ζ 64.33 %",
        _CIFAR100,
        0.1,
    ),
    "fig:sout": Shown(
        "Figure 34", "ρ by size of S̃, and the spread of ζ over 10 seeds", "flat; low spread"
    ),
    "fig:rversusmemtogether": Shown(
        "Figure 35", "ζ and the accuracy on noisy labels over training", "strong match", _CIFAR10
    ),
    "fig:asym": Shown(
        "Figure 36",
        "Region 1 of an oracle and of ζ, CIFAR-10 50 % asymmetric",
        "oracle 66.79, ζ 66.31 %",
        _CIFAR10,
        noise="asymmetric",
    ),
    "fig:thresholds": Shown(
        "Figure 37",
        "Region 1 over percentile thresholds",
        "means 76.0, tuned 79.15 %; best percentiles 35 to 55",
        _CIFAR10,
    ),
    "fig:exp_new": Shown(
        "Figure 38", "Bounds of Theorem 2, more settings, MNIST", "both fall with LNL and k̃", _MNIST
    ),
    "fig:expfmnist_new": Shown(
        "Figure 39", "Bounds of Theorem 2, Fashion-MNIST", "both fall with LNL and k̃", _FASHION
    ),
    "fig:expcifar_new": Shown(
        "Figure 40", "Bounds of Theorem 2, CIFAR-10", "both fall with LNL and k̃", _CIFAR10
    ),
    "fig:expsvhn_new": Shown(
        "Figure 41", "Bounds of Theorem 2, SVHN", "both fall with LNL and k̃", _SVHN
    ),
}
"""By label, in the order of the paper."""
