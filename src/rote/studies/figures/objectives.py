"""ζ and memorization under robust objectives."""

from rote.studies.settings import make_setting_study
from rote.studies.study import match_group

STUDY = make_setting_study(
    lambda spec: spec.objective.name,
    "objectives",
    "ζ tracks memorization under robust objectives: Mixup, NCE+RCE, NFL+RCE, CDR",
    wants=match_group("objectives"),
    cause="ζ tracks memorization where it occurs. NCE+RCE and NFL+RCE memorize almost none of the "
    "wrong labels (figure, bottom left), and their ζ is near 0: within them there is nothing to "
    "track, as ζ indicates.",
)
