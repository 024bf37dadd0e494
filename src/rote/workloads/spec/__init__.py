"""The description of a run: typed, checked, hashable, read from TOML."""

from rote.workloads.spec.allowed_imports import AllowedImports
from rote.workloads.spec.data_section import (
    TABLE_SUFFIXES,
    AnyData,
    Data,
    FolderData,
    GivenData,
    InputKind,
    LabelSet,
    NamedData,
    NpzData,
    SetName,
    TableData,
)
from rote.workloads.spec.field_error import FieldError
from rote.workloads.spec.noise_section import (
    AnyNoise,
    AsymmetricNoise,
    InstanceNoise,
    Noise,
    NoNoise,
    PlainNoise,
)
from rote.workloads.spec.options import Options
from rote.workloads.spec.recording_sections import (
    BestCheckpoints,
    Checkpoints,
    PlainCheckpoints,
    Probing,
)
from rote.workloads.spec.run_spec import RunSpec
from rote.workloads.spec.section import Section
from rote.workloads.spec.toml_file import located, read_toml
from rote.workloads.spec.training_sections import (
    ActivePassiveObjective,
    Adam,
    Architecture,
    CdrObjective,
    Cosine,
    CrossEntropyObjective,
    Exponential,
    MixupObjective,
    NoSchedule,
    Objective,
    Optimizer,
    Schedule,
    Sgd,
)

__all__ = [
    "TABLE_SUFFIXES",
    "ActivePassiveObjective",
    "Adam",
    "AllowedImports",
    "AnyData",
    "AnyNoise",
    "Architecture",
    "AsymmetricNoise",
    "BestCheckpoints",
    "CdrObjective",
    "Checkpoints",
    "Cosine",
    "CrossEntropyObjective",
    "Data",
    "Exponential",
    "FieldError",
    "FolderData",
    "GivenData",
    "InputKind",
    "InstanceNoise",
    "LabelSet",
    "MixupObjective",
    "NamedData",
    "NoNoise",
    "NoSchedule",
    "Noise",
    "NpzData",
    "Objective",
    "Optimizer",
    "Options",
    "PlainCheckpoints",
    "PlainNoise",
    "Probing",
    "RunSpec",
    "Schedule",
    "Section",
    "SetName",
    "Sgd",
    "TableData",
    "located",
    "read_toml",
]
