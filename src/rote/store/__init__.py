"""Results on disk: an append-only journal in a directory per run. Never imports torch."""

from rote.store.predictions import smallest_type
from rote.store.run_directory import RunDirectory, read_description, read_predictions, read_run
from rote.store.schema import RESERVED, SCHEMA_VERSION
from rote.store.sinks import SaveTo, Sink, Sinks, Target, name_of, open_sinks, targets_of
from rote.store.whole_file import write_whole

__all__ = [
    "RESERVED",
    "SCHEMA_VERSION",
    "RunDirectory",
    "SaveTo",
    "Sink",
    "Sinks",
    "Target",
    "name_of",
    "open_sinks",
    "read_description",
    "read_predictions",
    "read_run",
    "smallest_type",
    "targets_of",
    "write_whole",
]
