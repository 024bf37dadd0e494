"""Region 1 of an oracle and of ζ, where classes are mistaken for one another."""

from dataclasses import replace

from rote.studies.figures import oracle_regions
from rote.studies.study import is_broad

STUDY = replace(
    oracle_regions.STUDY,
    name="asymmetric",
    title="Region 1 of an oracle against Region 1 of ζ, asymmetric noise",
    wants=lambda pool: is_broad(pool) and pool.noise in ("pair", "asymmetric"),
    paper=("fig:asym",),
    cause="In the paper’s own setting (cifar10-mistaken) ζ is level with the oracle. There few "
    "checkpoints are in the Region 1 of either, and they are seldom the same: a class that is "
    "mistaken for another is learned as a pattern, not label by label, so that right and wrong "
    "labels are memorized alike. On pairs of MNIST’s digits ζ, which gauges how fast random labels "
    "are learned, sees less than the oracle.",
    cause_at_medium="",
)
