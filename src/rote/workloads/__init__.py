"""Run specs, data sets, architectures, objectives, and the training loop."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rote.workloads.architectures import build_architecture as build_architecture
    from rote.workloads.checkpoints import load_checkpoint as load_checkpoint
    from rote.workloads.cleaning import (
        DROP as DROP,
        RELABEL as RELABEL,
        Cleaning as Cleaning,
        LabelChange as LabelChange,
        clean as clean,
        compare_on_holdout as compare_on_holdout,
        get_holdout_path as get_holdout_path,
        make_spec_to_compare as make_spec_to_compare,
        plan_cleaning as plan_cleaning,
        write_cleaned as write_cleaned,
    )
    from rote.workloads.data import (
        Dataset as Dataset,
        check_file as check_file,
        find_data_folder as find_data_folder,
        list_datasets as list_datasets,
        load_arrays as load_arrays,
        make_data_section as make_data_section,
        read_data as read_data,
    )
    from rote.workloads.data.sample_views import (
        SampleView as SampleView,
        view_samples as view_samples,
    )
    from rote.workloads.data.splits import Splits as Splits, prepare as prepare
    from rote.workloads.loop import (
        TrainedRun as TrainedRun,
        train as train,
        train_folds as train_folds,
    )
    from rote.workloads.predictions import (
        Predictions as Predictions,
        TrainedModel as TrainedModel,
        load_model as load_model,
    )
    from rote.workloads.run_folder import RunFolder as RunFolder
    from rote.workloads.spec import (
        AllowedImports as AllowedImports,
        BestCheckpoints as BestCheckpoints,
        FieldError as FieldError,
        RunSpec as RunSpec,
        locate_errors as locate_errors,
        read_toml as read_toml,
    )
    from rote.workloads.spec_for_data import suggest_spec as suggest_spec
    from rote.workloads.workload import build_network as build_network

_NAMES = {
    "architectures": ["build_architecture"],
    "checkpoints": ["load_checkpoint"],
    "cleaning": [
        "DROP",
        "RELABEL",
        "Cleaning",
        "LabelChange",
        "clean",
        "compare_on_holdout",
        "get_holdout_path",
        "make_spec_to_compare",
        "plan_cleaning",
        "write_cleaned",
    ],
    "data": [
        "Dataset",
        "check_file",
        "find_data_folder",
        "make_data_section",
        "list_datasets",
        "load_arrays",
        "read_data",
    ],
    "data.sample_views": ["SampleView", "view_samples"],
    "data.splits": ["Splits", "prepare"],
    "loop": ["TrainedRun", "train", "train_folds"],
    "predictions": ["Predictions", "TrainedModel", "load_model"],
    "run_folder": ["RunFolder"],
    "spec": [
        "AllowedImports",
        "BestCheckpoints",
        "FieldError",
        "RunSpec",
        "locate_errors",
        "read_toml",
    ],
    "spec_for_data": ["suggest_spec"],
    "workload": ["build_network"],
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [
    "Dataset",
    "Predictions",
    "RunSpec",
    "TrainedModel",
    "TrainedRun",
    "clean",
    "list_datasets",
    "load_arrays",
    "load_model",
    "read_data",
    "suggest_spec",
    "train",
    "train_folds",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a spec is read without torch
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rote.workloads' has no attribute {name!r}")
