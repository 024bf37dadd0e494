"""Test accuracy in the four regions, real label noise from people or labeling rules."""

from dataclasses import replace

from rote.studies.figures import four_regions
from rote.studies.study import is_common

STUDY = replace(
    four_regions.STUDY,
    name="real-noise",
    title="mean test accuracy in Regions 1 to 4, noise from people and labeling rules",
    wants=lambda pool: is_common(pool) and pool.noise is None,
    paper=("fig:clothing1m_3",),
    cause="The order is that of the paper on CIFAR-10N and yoruba. On youtube, Region 2 is a "
    "point ahead: its wrong labels come from keyword rules, which networks with low ζ learn as "
    "well. On CIFAR-10N, a few diverged runs (tracking) raise the mean of ζ, so Region 2 is "
    "nearly empty.",
    cause_at_medium=(
        "With the labels `worse`, Region 1 is the best region. With the labels `aggre`, which the "
        "paper shows, 9 % are wrong, and memorizing them costs our networks only one or two "
        "points of test accuracy. Region 2, with the highest training accuracy, therefore holds "
        "the best checkpoints. In the paper, Region 1 is two points ahead of it. We do not know "
        "why."
    ),
)
