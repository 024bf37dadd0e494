"""Results on disk: an append-only journal in a directory per run, and loggers. Never torch."""

from rote.store.checksums import checksums_of
from rote.store.csv_cells import escape_cells, read_cells
from rote.store.damaged_arrays import DAMAGED_ARRAYS
from rote.store.directories import read_whole_readings
from rote.store.found_runs import FoundRun, SourceRuns, checkpoint, frame_of
from rote.store.given_labels import text_of_labels
from rote.store.journal import seal_journal
from rote.store.journal_line import parse_line
from rote.store.lock import WriterLock, is_locked
from rote.store.logger import Address, Logger
from rote.store.mapping import foreign_metrics, likely_mapping
from rote.store.neighbor_votes import (
    NEIGHBORS_FILE,
    bytes_of_votes,
    why_no_votes,
    write_neighbor_votes,
)
from rote.store.nested_tables import leaves
from rote.store.row_file import smallest_type
from rote.store.run_directory import (
    CLAIM_FILE,
    FAILURE_FILE,
    RunDirectory,
    check_free,
)
from rote.store.run_record import (
    CHECKPOINT_FOLDER,
    CHECKPOINTS_FILE,
    JOURNAL_FILE,
    PREDICTIONS_FILE,
    RUN_FILE,
    checkpoint_path,
    find_checkpoint,
    name_checkpoints,
    read_description,
    read_predictions,
    read_rows_of,
    read_run,
)
from rote.store.run_status import (
    LABELS_FILE,
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
    GIVEN_LABELS,
    SCHEMA_VERSION,
    check_metric_name,
    is_reserved,
    line_of_reading,
    line_of_resume,
    lines_that_count,
    reading_of_line,
)
from rote.store.sinks import Opened, Sink, Sinks, Writing
from rote.store.table import RunTable, read_table, run_directories
from rote.store.whole_files import whole_file, write_whole

__all__ = [
    "CHECKPOINTS_FILE",
    "CHECKPOINT_FOLDER",
    "CLAIM_FILE",
    "DAMAGED_ARRAYS",
    "FAILURE_FILE",
    "GIVEN_LABELS",
    "JOURNAL_FILE",
    "LABELS_FILE",
    "NEIGHBORS_FILE",
    "PREDICTIONS_FILE",
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
    "Writing",
    "bytes_of_votes",
    "can_be_read",
    "check_free",
    "check_metric_name",
    "checkpoint",
    "checkpoint_path",
    "checksums_of",
    "escape_cells",
    "find_checkpoint",
    "foreign_metrics",
    "frame_of",
    "is_locked",
    "is_reserved",
    "leaves",
    "likely_mapping",
    "line_of_reading",
    "line_of_resume",
    "lines_that_count",
    "list_runs",
    "name_checkpoints",
    "name_of",
    "open_sinks",
    "parse_line",
    "read_cells",
    "read_description",
    "read_predictions",
    "read_rows_of",
    "read_run",
    "read_table",
    "read_whole_readings",
    "reading_of_line",
    "run_directories",
    "seal_journal",
    "smallest_type",
    "status_of",
    "targets_of",
    "text_of_labels",
    "whole_file",
    "why_no_votes",
    "write_neighbor_votes",
    "write_whole",
]
