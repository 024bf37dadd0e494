"""Results on disk: an append-only journal in a directory per run, and loggers. Never torch."""

from rote.store.csv_cells import (
    make_csv as make_csv,
    read_cells as read_cells,
    unescape_cell as unescape_cell,
)
from rote.store.data_file import (
    check_data_unchanged as check_data_unchanged,
    fingerprint_file as fingerprint_file,
    has_changed as has_changed,
    read_data_file as read_data_file,
)
from rote.store.files import (
    WriterLock as WriterLock,
    checksums_of as checksums_of,
    is_locked as is_locked,
    whole_file as whole_file,
    write_whole as write_whole,
)
from rote.store.holdout import (
    DAMAGED_ARRAYS as DAMAGED_ARRAYS,
    NEIGHBORS_FILE as NEIGHBORS_FILE,
    bytes_of_votes as bytes_of_votes,
    text_of_labels as text_of_labels,
    why_no_votes as why_no_votes,
    write_neighbor_votes as write_neighbor_votes,
)
from rote.store.journal import (
    GIVEN_LABELS as GIVEN_LABELS,
    check_metric_name as check_metric_name,
    line_of_reading,
    line_of_resume,
    lines_that_count,
    parse_line as parse_line,
    reading_of_line,
    seal_journal as seal_journal,
)
from rote.store.logger import Logger
from rote.store.mapping import foreign_metrics as foreign_metrics, likely_mapping as likely_mapping
from rote.store.nested_tables import leaves as leaves
from rote.store.out_of_sample import (
    OUT_OF_SAMPLE_FILE as OUT_OF_SAMPLE_FILE,
    OutOfSample,
    read_out_of_sample,
)
from rote.store.row_file import smallest_type as smallest_type
from rote.store.run_directory import (
    CLAIM_FILE as CLAIM_FILE,
    FAILURE_FILE as FAILURE_FILE,
    RunDirectory as RunDirectory,
    check_free as check_free,
)
from rote.store.run_record import (
    CHECKPOINT_FOLDER as CHECKPOINT_FOLDER,
    JOURNAL_FILE as JOURNAL_FILE,
    PREDICTIONS_FILE as PREDICTIONS_FILE,
    RUN_FILE as RUN_FILE,
    checkpoint_path as checkpoint_path,
    name_checkpoints as name_checkpoints,
    read_predictions,
    read_rows_of as read_rows_of,
    read_run,
    read_whole_readings as read_whole_readings,
)
from rote.store.run_status import (
    LABELS_FILE as LABELS_FILE,
    STATE_FILE as STATE_FILE,
    STATES as STATES,
    WORKLOAD_FILE as WORKLOAD_FILE,
    State as State,
    list_runs,
    status_of as status_of,
)
from rote.store.sinks import (
    Opened,
    SaveTo as SaveTo,
    Sinks as Sinks,
    Target as Target,
    Writing as Writing,
    can_be_read as can_be_read,
    name_of as name_of,
    open_sinks as open_sinks,
    targets_of as targets_of,
)
from rote.store.table import (
    FoundRun,
    RunTable,
    SourceRuns,
    frame_of,
    read_table,
    run_directories as run_directories,
)

__all__ = [
    "FoundRun",
    "Logger",
    "Opened",
    "OutOfSample",
    "RunTable",
    "SourceRuns",
    "frame_of",
    "line_of_reading",
    "line_of_resume",
    "lines_that_count",
    "list_runs",
    "read_out_of_sample",
    "read_predictions",
    "read_run",
    "read_table",
    "reading_of_line",
]
