"""Results on disk: an append-only journal in a directory per run, and loggers. Never torch."""

from rote.store.found_runs import FoundRun, SourceRuns, checkpoint, frame_of
from rote.store.journal_line import parse_line
from rote.store.lock import WriterLock, is_locked
from rote.store.logger import Address, Logger
from rote.store.mapping import parse_mapping
from rote.store.nested_tables import leaves
from rote.store.place_in_folder import place_in
from rote.store.row_file import smallest_type
from rote.store.run_directory import (
    CLAIM_FILE,
    FAILURE_FILE,
    JOURNAL_FILE,
    PREDICTIONS_FILE,
    RUN_FILE,
    RunDirectory,
    check_free,
    read_description,
    read_predictions,
    read_rows_of,
    read_run,
)
from rote.store.run_status import (
    STATE_FILE,
    STATES,
    WORKLOAD_FILE,
    RunStatus,
    State,
    list_runs,
    status_of,
)
from rote.store.save_to import SaveTo, Target, can_be_read, name_of, open_sinks, targets_of
from rote.store.schema import (
    RESERVED,
    SCHEMA_VERSION,
    line_of_reading,
    line_of_resume,
    lines_that_count,
    reading_of_line,
)
from rote.store.sinks import Opened, Sink, Sinks
from rote.store.table import RunTable, read_table
from rote.store.whole_files import whole_file, write_whole

__all__ = [
    "CLAIM_FILE",
    "FAILURE_FILE",
    "JOURNAL_FILE",
    "PREDICTIONS_FILE",
    "RESERVED",
    "RUN_FILE",
    "SCHEMA_VERSION",
    "STATES",
    "STATE_FILE",
    "WORKLOAD_FILE",
    "Address",
    "FoundRun",
    "Logger",
    "Opened",
    "RunDirectory",
    "RunStatus",
    "RunTable",
    "SaveTo",
    "Sink",
    "Sinks",
    "SourceRuns",
    "State",
    "Target",
    "WriterLock",
    "can_be_read",
    "check_free",
    "checkpoint",
    "frame_of",
    "is_locked",
    "leaves",
    "line_of_reading",
    "line_of_resume",
    "lines_that_count",
    "list_runs",
    "name_of",
    "open_sinks",
    "parse_line",
    "parse_mapping",
    "place_in",
    "read_description",
    "read_predictions",
    "read_rows_of",
    "read_run",
    "read_table",
    "reading_of_line",
    "smallest_type",
    "status_of",
    "targets_of",
    "whole_file",
    "write_whole",
]
