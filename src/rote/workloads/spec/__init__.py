"""The description of a run: typed, checked, hashable, read from TOML."""

from rote.workloads.spec.allowed_imports import AllowedImports
from rote.workloads.spec.data_sections import (
    IMAGE_SIZE,
    TABLE_SUFFIXES,
    AnyData,
    AnyNoise,
    AsymmetricNoise,
    Data,
    FolderData,
    GivenData,
    InputKind,
    InstanceNoise,
    NamedData,
    NoNoise,
    NpzData,
    TableData,
)
from rote.workloads.spec.run_spec import (
    ActivePassiveObjective,
    BestCheckpoints,
    CdrObjective,
    Checkpoints,
    Cosine,
    Exponential,
    MixupObjective,
    Optimizer,
    RunSpec,
    Sgd,
)
from rote.workloads.spec.section import FieldError
from rote.workloads.spec.toml_file import locate_errors, read_toml

__all__ = [
    "IMAGE_SIZE",
    "TABLE_SUFFIXES",
    "ActivePassiveObjective",
    "AllowedImports",
    "AnyData",
    "AnyNoise",
    "AsymmetricNoise",
    "BestCheckpoints",
    "CdrObjective",
    "Checkpoints",
    "Cosine",
    "Data",
    "Exponential",
    "FieldError",
    "FolderData",
    "GivenData",
    "InputKind",
    "InstanceNoise",
    "MixupObjective",
    "NamedData",
    "NoNoise",
    "NpzData",
    "Optimizer",
    "RunSpec",
    "Sgd",
    "TableData",
    "locate_errors",
    "read_toml",
]
