"""Starting many runs: which ones, where, and what has become of them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rote.sweeps.demo import Comparison as Comparison
    from rote.sweeps.demo import compare_rules as compare_rules
    from rote.sweeps.demo import demo_specs as demo_specs
    from rote.sweeps.local_executor import LocalExecutor as LocalExecutor
    from rote.sweeps.names import run_name as run_name
    from rote.sweeps.names import run_path as run_path
    from rote.sweeps.progress import Progress as Progress
    from rote.sweeps.ray_executor import RayExecutor as RayExecutor
    from rote.sweeps.space import SearchSpace as SearchSpace
    from rote.sweeps.sweep import Sweep as Sweep
    from rote.sweeps.tuning import ChosenTrial as ChosenTrial
    from rote.sweeps.tuning import SusceptibilityObjective as SusceptibilityObjective
    from rote.sweeps.tuning import create_study as create_study
    from rote.sweeps.tuning import objective_values as objective_values
    from rote.sweeps.tuning import select_trial as select_trial

_HOMES = {
    "ChosenTrial": "rote.sweeps.tuning",
    "Comparison": "rote.sweeps.demo",
    "LocalExecutor": "rote.sweeps.local_executor",
    "Progress": "rote.sweeps.progress",
    "RayExecutor": "rote.sweeps.ray_executor",
    "SearchSpace": "rote.sweeps.space",
    "SusceptibilityObjective": "rote.sweeps.tuning",
    "Sweep": "rote.sweeps.sweep",
    "compare_rules": "rote.sweeps.demo",
    "create_study": "rote.sweeps.tuning",
    "demo_specs": "rote.sweeps.demo",
    "objective_values": "rote.sweeps.tuning",
    "run_name": "rote.sweeps.names",
    "select_trial": "rote.sweeps.tuning",
    "run_path": "rote.sweeps.names",
}

__all__ = [
    "ChosenTrial",
    "Comparison",
    "LocalExecutor",
    "Progress",
    "RayExecutor",
    "SearchSpace",
    "SusceptibilityObjective",
    "Sweep",
    "compare_rules",
    "create_study",
    "demo_specs",
    "objective_values",
    "run_name",
    "run_path",
    "select_trial",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a sweep starts without torch and polars
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rote.sweeps' has no attribute {name!r}")
