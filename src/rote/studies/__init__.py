"""Figures and tables as functions of runs: a pool says which runs, a study what they show."""

from rote.studies.index import figure_table, write_figures, write_list
from rote.studies.pack import pack, unpack
from rote.studies.paper import PAPER, find_label
from rote.studies.pool import PRESETS, Pool, read_pools
from rote.studies.results import as_json, page, restricted, write_result
from rote.studies.run_pools import (
    Records,
    finished_runs,
    is_over,
    ready,
    record_measured,
    record_numbers,
    record_pools,
    restore_pool,
    run_pool,
    trained,
)
from rote.studies.study import Study, find_study, studies

__all__ = [
    "PAPER",
    "PRESETS",
    "Pool",
    "Records",
    "Study",
    "as_json",
    "figure_table",
    "find_label",
    "find_study",
    "finished_runs",
    "is_over",
    "pack",
    "page",
    "read_pools",
    "ready",
    "record_measured",
    "record_numbers",
    "record_pools",
    "restore_pool",
    "restricted",
    "run_pool",
    "studies",
    "trained",
    "unpack",
    "write_figures",
    "write_list",
    "write_result",
]
