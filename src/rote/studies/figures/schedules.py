"""ζ and memorization under each learning rate schedule."""

from rote.studies.settings import make_setting_study
from rote.studies.study import is_broad

STUDY = make_setting_study(
    lambda spec: spec.schedule.name,
    "schedules",
    "ζ tracks memorization under each schedule",
    wants=is_broad,
    paper=("fig:lr",),
    cause="The order is that of the paper: exponential above cosine. The cosine recipe also has "
    "the learning rate of 0.1, at which perceptrons diverge on CIFAR. Its last steps change "
    "little, while memorization remains.",
)
