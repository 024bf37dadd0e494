"""Results on disk: an append-only journal in a directory per run. Never imports torch."""

from rote.store.predictions import smallest_type
from rote.store.run_directory import RunDirectory, read_description, read_predictions, read_run
from rote.store.schema import RESERVED, SCHEMA_VERSION

__all__ = [
    "RESERVED",
    "SCHEMA_VERSION",
    "RunDirectory",
    "read_description",
    "read_predictions",
    "read_run",
    "smallest_type",
]
