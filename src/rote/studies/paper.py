"""Every figure and table of the paper, by its label there, and the number that it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rote.studies.pool import Pool


class Shown(NamedTuple):
    """A figure or table.

    Attributes:
        what: it shows.
        reported: by the paper.
        data: the sets that it is about, where a study has pools of several; of none, all count.
        level: how many of their labels were changed; None where people or rules did it.
        noise: how they were changed.
    """

    what: str
    reported: str
    data: tuple[str, ...] = ()
    level: float | None = 0.5
    noise: str | None = "symmetric-inclusive"

    def is_about(self, pool: Pool) -> bool:
        """Whether a pool has the data and the noise of the figure."""
        return not self.data or (
            pool.data in self.data and (pool.noise_level, pool.noise) == (self.level, self.noise)
        )


_CIFAR10 = ("cifar10",)


PAPER = {
    "fig:figure1": Shown(
        "Oracle regions against ζ regions, CIFAR-10 50 %",
        "mean test accuracy 77.93 ± 4.68 % with the truth, 76.15 ± 6.32 % by ζ",
        _CIFAR10,
    ),
    "fig:motiv, fig:motiv2": Shown(
        "Steps to memorize one wrongly labeled sample, clean- and noisy-trained network",
        "99 against 2 steps",
    ),
    "fig:motivclean": Shown(
        "Steps to fit one unseen sample with its right label", "order reverses"
    ),
    "fig:calibration": Shown("The same at equal calibration", "still holds"),
    "fig:rversusmem": Shown(
        "ζ against the accuracy on the noisy subset, CIFAR-10 50 %", "Pearson ρ 0.884", _CIFAR10
    ),
    "fig:rversusmemtogether": Shown("Both curves over training", "a very strong match", _CIFAR10),
    "fig:filter": Shown(
        "Training against test accuracy, all and ζ below its median, CIFAR-10 50 %",
        "correlation 0.608 before, 0.951 after",
        _CIFAR10,
    ),
    "fig:filtermnist": Shown("The same, MNIST 50 %", "−0.766 before, 0.863 after", ("mnist",)),
    "fig:filterfmnist": Shown(
        "The same, Fashion-MNIST 50 %", "the correlation rises a lot", ("fashion_mnist",)
    ),
    "fig:filtersvhn, fig:filtercifar100": Shown(
        "The same, SVHN and CIFAR-100 50 %", "the correlation rises a lot", ("svhn", "cifar100")
    ),
    "fig:filtertiny": Shown(
        "The same, Tiny ImageNet 10 %", "the correlation rises", ("tiny_imagenet",), 0.1
    ),
    "fig:main": Shown(
        "Mean test accuracy in Regions 1, 2, 3, 4, CIFAR-10 50 %",
        "76 / 70.59 / 52.49 / 58.23 %",
        _CIFAR10,
    ),
    "fig:mainmnist": Shown("The same, MNIST 50 %", "95.38 / 72.65 / 47.69 / – %", ("mnist",)),
    "fig:mainfmnist": Shown(
        "The same, Fashion-MNIST 50 %", "95.82 / 72.04 / 52.68 / – %", ("fashion_mnist",)
    ),
    "fig:mainsvhn, fig:figure1svhn": Shown(
        "The same, SVHN 50 %",
        "88.64 / 66.34 / 53.25 / 85.17 %; oracle 87.56, ζ 85.44 %",
        ("svhn",),
    ),
    "fig:maincifar100, fig:figure1cifar100": Shown(
        "The same, CIFAR-100 50 %",
        "47.09 / 40.96 / 22.65 / 39.07 %; oracle 51.39, ζ 49.57 %",
        ("cifar100",),
    ),
    "fig:maintiny": Shown(
        "The same, Tiny ImageNet 10 %", "57.51 / 53.25 / 18.53 / 53.26 %", ("tiny_imagenet",), 0.1
    ),
    "fig:clothing1m_3": Shown(
        "Real-world noise, Regions 1, 2, 3, 4",
        "Clothing-1M 61.80 / 57.89 / 51.25 / 51.42 %, Animal-10N 96.37 / 92.51 / 91.18 / 89.35 %, "
        "CIFAR-10N aggre 87.2 / 85.44 / 77.87 / 78.45 %",
        ("clothing1m", "animal10n", "cifar10n"),
        None,
        None,
    ),
    "fig:projlnl1, fig:exp_new, fig:expfmnist_new, fig:expcifar_new, fig:expsvhn_new": Shown(
        "The bounds of Theorem 2 over k̃ for several noise levels, four datasets",
        "both bounds decrease with the noise level and with k̃",
    ),
    "fig:train_slope": Shown("Plain, Mixup and NCE+RCE: accuracies against ζ", "Pearson ρ 0.636"),
    "fig:advapp": Shown("Success of the SimBA attack against ζ", "no correlation"),
    "fig:mv": Shown(
        "Rivals against the accuracy on the noisy subset: accuracy drop, loss mixture, ζ",
        "slightly positive, negative, strongly positive",
    ),
    "tab:noisyvalsetapp": Shown(
        "Kendall τ with test accuracy: noisy validation and the ζ filter, by size of the set",
        "10: 0.244 and 0.792, 128: 0.458 and 0.890, 256: 0.707 and 0.878, 512: 0.799 and 0.876, "
        "1024: 0.830 and 0.877, 2048: 0.902 and 0.917, 4096: 0.886 and 0.912, 8192: 0.940 and "
        "0.923, 10000: 0.956 and 0.914; training accuracy alone 0.513",
        _CIFAR10,
    ),
    "fig:pareto": Shown(
        "That difference over noise level and size", "ζ is ahead at high noise and small sets"
    ),
    "fig:noisysel": Shown(
        "Selection with a label-error detector of X % accuracy", "ζ equals X ≈ 96 %", _CIFAR10
    ),
    "fig:fine": Shown(
        "Widths of two networks, CIFAR-100 50 %",
        "Pearson ρ 0.749",
        ("cifar100", "mnist", "fashion_mnist"),
    ),
    "fig:lr": Shown(
        "Two schedules, MNIST 50 %", "Pearson ρ 0.89 exponential, 0.772 cosine", ("mnist",)
    ),
    "fig:cifar10less, fig:figure1_less_cifar10": Shown(
        "CIFAR-10 10 %", "Pearson ρ 0.634; oracle 82.93, ζ 86.08 %"
    ),
    "fig:cifar100less, fig:figure1_less_cifar100": Shown(
        "CIFAR-100 10 %", "Pearson ρ 0.849; oracle 62.61, ζ 64.33 %"
    ),
    "fig:asym": Shown(
        "CIFAR-10 50 % asymmetric", "oracle 66.793, ζ 66.307 %", _CIFAR10, noise="asymmetric"
    ),
    "fig:sout": Shown(
        "ρ by size of S̃, and the spread of ζ over 10 seeds", "flat from small sizes on; low spread"
    ),
    "fig:thresholds": Shown(
        "Region 1 over percentile thresholds",
        "tuned best 79.15 %; best percentiles 35 to 55",
        _CIFAR10,
    ),
}
