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
    cause_at_medium="All networks of this pool memorize in the end, and training accuracy and ζ "
    "rise together. Region 1 has too few checkpoints for a statement.",
)
