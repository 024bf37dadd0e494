"""rote: know when a network is memorizing its label noise, without one clean label.

Names are loaded when they are first used, so ``import rote`` costs nothing and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, InterferenceError, RoteError, RoteWarning
from rote.version import __version__

if TYPE_CHECKING:
    from rote import labels as labels, theory as theory
    from rote.labels import neighbor_votes as neighbor_votes
    from rote.probe import (
        LogitsAt as LogitsAt,
        PlainStep as PlainStep,
        ProbePolicy as ProbePolicy,
        Resistance as Resistance,
        Samples as Samples,
        resistance as resistance,
    )
    from rote.records import Column as Column, Reading as Reading
    from rote.reporting import plot as plot, report as report
    from rote.selection import select as select
    from rote.snapshot import preserved as preserved
    from rote.tracking import (
        Signal as Signal,
        StopRule as StopRule,
        Tracker as Tracker,
        track as track,
    )
    from rote.workloads import clean as clean, load_model as load

_HOMES = {
    # tracking a run
    "track": "rote.tracking",
    "Tracker": "rote.tracking",
    "StopRule": "rote.tracking",
    "Signal": "rote.tracking",
    "Reading": "rote.records",
    "Column": "rote.records",
    # how the probe steps
    "ProbePolicy": "rote.probe",
    "PlainStep": "rote.probe",
    "LogitsAt": "rote.probe",
    "Samples": "rote.probe",
    # one sample at a time
    "resistance": "rote.probe",
    "Resistance": "rote.probe",
    # choosing
    "neighbor_votes": "rote.labels",
    "select": "rote.selection",
    # looking
    "report": "rote.reporting",
    "plot": "rote.reporting",
    # using a trained network
    "load": "rote.workloads",
    "clean": "rote.workloads",
    # leaving no trace
    "preserved": "rote.snapshot",
}
_ORIGINALS = {"load": "load_model"}
_ROOMS = (
    "labels",
    "snapshot",
    "store",
    "probe",
    "selection",
    "theory",
    "tracking",
    "rivals",
    "workloads",
    "integrations",
    "reporting",
    "sweeps",
    "studies",
)

__all__ = [
    "Column",
    "InputError",
    "InterferenceError",
    "LogitsAt",
    "PlainStep",
    "ProbePolicy",
    "Reading",
    "Resistance",
    "RoteError",
    "RoteWarning",
    "Samples",
    "Signal",
    "StopRule",
    "Tracker",
    "__version__",
    "clean",
    "labels",
    "load",
    "neighbor_votes",
    "plot",
    "preserved",
    "report",
    "resistance",
    "select",
    "theory",
    "track",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), _ORIGINALS.get(name, name))
    if name in _ROOMS:
        return import_module(f"rote.{name}")
    raise AttributeError(f"module 'rote' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
