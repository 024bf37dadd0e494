"""Test accuracy in the four regions, where people or rules made the noise."""

from dataclasses import replace

from rote.studies.figures import four_regions
from rote.studies.study import is_common

STUDY = replace(
    four_regions.STUDY,
    name="real-noise",
    title="mean test accuracy in Regions 1 to 4, noise of people and rules",
    wants=lambda pool: is_common(pool) and pool.noise is None,
    paper=("fig:clothing1m_3",),
    cause="The order is that of the paper on CIFAR-10N and yoruba. On youtube, Region 2 is a point "
    "ahead: its wrong labels come from rules on words, which networks of low ζ learn, too. A few "
    "diverged runs (tracking) lift the mean of ζ on CIFAR-10N, so that Region 2 is nearly empty.",
    cause_at_medium="All networks of this pool memorize in the end, and training accuracy and ζ "
    "rise together: Region 1 has too few checkpoints to tell.",
)
