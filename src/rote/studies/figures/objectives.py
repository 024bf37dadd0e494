"""ζ and memorization under robust objectives."""

from rote.studies.settings import make_setting_study
from rote.studies.study import match_group

STUDY = make_setting_study(
    lambda spec: spec.objective.name,
    "objectives",
    "ζ tracks memorization under robust objectives: Mixup, NCE+RCE, NFL+RCE, CDR",
    wants=match_group("objectives"),
    cause="ζ tracks memorization where there is some. NCE+RCE and NFL+RCE memorize next to "
    "nothing of the wrong labels (figure, bottom left), with ζ near 0: within them "
    "there is nothing to track, as ζ says.",
)
