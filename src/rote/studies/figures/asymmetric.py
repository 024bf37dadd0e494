"""Region 1 of an oracle and of ζ under asymmetric label noise."""

from dataclasses import replace

from rote.studies.figures import oracle_regions
from rote.studies.study import is_broad

STUDY = replace(
    oracle_regions.STUDY,
    name="asymmetric",
    title="Region 1 of an oracle against Region 1 of ζ, asymmetric noise",
    wants=lambda pool: is_broad(pool) and pool.noise in ("pair", "asymmetric"),
    paper=("fig:asym",),
    cause="In the paper’s own setting (cifar10-mistaken), too few checkpoints are in either "
    "Region 1 for a statement. Networks learn a "
    "class that is mistaken for another as a pattern, not label by label, so they memorize right "
    "and wrong labels alike. On MNIST with pair noise, ζ, which measures how fast random labels "
    "are learned, detects less than the oracle.",
    cause_at_medium=(
        "Five runs have 75 checkpoints, of which three are in the oracle’s Region 1. Networks "
        "learn a class that is mistaken for another as a pattern, so hardly any checkpoint fits "
        "the right labels and not the wrong ones, and memorization costs only a few points of "
        "test accuracy."
    ),
)
