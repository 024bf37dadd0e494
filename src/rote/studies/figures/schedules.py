"""ζ and memorization under each learning rate schedule."""

from dataclasses import replace

from rote.studies.settings import draw_by_architecture, make_setting_study
from rote.studies.study import is_broad

_STUDY = make_setting_study(
    lambda spec: spec.schedule.name,
    "schedules",
    "ζ tracks memorization under each schedule",
    wants=is_broad,
    paper=("fig:lr",),
    cause="The order is that of the paper: exponential above cosine. The cosine recipe also has "
    "the learning rate of 0.1, at which perceptrons diverge on CIFAR. Its last steps change "
    "little, while memorization remains.",
    cause_at_medium=(
        "Within each schedule, ζ follows memorization. Over both it does so less, since a "
        "constant learning rate gives a higher ζ at the same memorization. ζ of the reference "
        "step is hardly affected."
    ),
)
STUDY = replace(_STUDY, draw=draw_by_architecture)
