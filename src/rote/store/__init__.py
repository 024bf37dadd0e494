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
    compute_checksums as compute_checksums,
    is_locked as is_locked,
    read_plain as read_plain,
    replace_file as replace_file,
    write_whole as write_whole,
)
from rote.store.holdout import (
    DAMAGED_ARRAYS as DAMAGED_ARRAYS,
    NEIGHBORS_FILE as NEIGHBORS_FILE,
    encode_labels as encode_labels,
    encode_votes as encode_votes,
    find_vote_fault as find_vote_fault,
)
from rote.store.journal import (
    GIVEN_LABELS as GIVEN_LABELS,
    check_metric_name as check_metric_name,
    decode_reading,
    drop_void_lines,
    encode_reading,
    encode_resume,
    parse_line as parse_line,
    seal_journal as seal_journal,
)
from rote.store.logger import Logger
from rote.store.mapping import (
    find_foreign_metrics as find_foreign_metrics,
    guess_mapping as guess_mapping,
)
from rote.store.nested_tables import flatten_tables as flatten_tables
from rote.store.out_of_sample import (
    OUT_OF_SAMPLE_FILE as OUT_OF_SAMPLE_FILE,
    OutOfSample,
    read_out_of_sample,
)
from rote.store.row_file import find_smallest_type as find_smallest_type
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
    get_checkpoint_path as get_checkpoint_path,
    name_checkpoints as name_checkpoints,
    read_predictions,
    read_rows as read_rows,
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
    read_status as read_status,
)
from rote.store.sinks import (
    Opened,
    SaveTo as SaveTo,
    Sinks as Sinks,
    Target as Target,
    Writing as Writing,
    can_be_read as can_be_read,
    get_run_name as get_run_name,
    open_sinks as open_sinks,
    parse_targets as parse_targets,
)
from rote.store.table import (
    FoundRun,
    RunTable,
    SourceRuns,
    find_run_directories as find_run_directories,
    make_frame,
    read_table,
)

__all__ = [
    "FoundRun",
    "Logger",
    "Opened",
    "OutOfSample",
    "RunTable",
    "SourceRuns",
    "decode_reading",
    "drop_void_lines",
    "encode_reading",
    "encode_resume",
    "list_runs",
    "make_frame",
    "read_out_of_sample",
    "read_predictions",
    "read_run",
    "read_table",
]
