"""Run many specs: the search space, the executors, the progress, and tuning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rote.sweeps.cost_estimate import estimate_cost as estimate_cost
    from rote.sweeps.demo import (
        Comparison as Comparison,
        compare_rules as compare_rules,
        make_demo_specs as make_demo_specs,
    )
    from rote.sweeps.executor import (
        Event as Event,
        Executor as Executor,
        Failed as Failed,
        Finished as Finished,
        Job as Job,
        Lost as Lost,
        get_last_line as get_last_line,
        get_named_path as get_named_path,
        get_run_path as get_run_path,
    )
    from rote.sweeps.local_executor import (
        LocalExecutor as LocalExecutor,
        count_cores as count_cores,
    )
    from rote.sweeps.progress import (
        LastReading as LastReading,
        Progress as Progress,
        read_last as read_last,
    )
    from rote.sweeps.ray_executor import RayExecutor as RayExecutor
    from rote.sweeps.space import SearchSpace as SearchSpace
    from rote.sweeps.sweep import Sweep as Sweep
    from rote.sweeps.tuning import (
        AccuracyObjective as AccuracyObjective,
        ChosenTrial as ChosenTrial,
        create_study as create_study,
        is_surely_below as is_surely_below,
        judge_trial as judge_trial,
        make_pruner as make_pruner,
        report_trial as report_trial,
        select_trial as select_trial,
    )

_NAMES = {
    "cost_estimate": ["estimate_cost"],
    "demo": ["Comparison", "compare_rules", "make_demo_specs"],
    "executor": [
        "Event",
        "Executor",
        "Failed",
        "Finished",
        "Job",
        "Lost",
        "get_last_line",
        "get_named_path",
        "get_run_path",
    ],
    "local_executor": ["LocalExecutor", "count_cores"],
    "progress": ["LastReading", "Progress", "read_last"],
    "ray_executor": ["RayExecutor"],
    "space": ["SearchSpace"],
    "sweep": ["Sweep"],
    "tuning": [
        "AccuracyObjective",
        "ChosenTrial",
        "create_study",
        "is_surely_below",
        "judge_trial",
        "make_pruner",
        "report_trial",
        "select_trial",
    ],
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [
    "AccuracyObjective",
    "Executor",
    "LocalExecutor",
    "RayExecutor",
    "SearchSpace",
    "Sweep",
    "create_study",
    "judge_trial",
    "make_pruner",
    "report_trial",
    "select_trial",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a sweep starts without torch and polars
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rote.sweeps' has no attribute {name!r}")
