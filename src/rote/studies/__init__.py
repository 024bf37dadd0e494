"""Studies, which compute the paper's figures and tables from pools of runs."""

from rote.studies.index import write_figures as write_figures, write_list as write_list
from rote.studies.paper import PAPER as PAPER, find_label as find_label
from rote.studies.pool import Pool, read_pools
from rote.studies.results import (
    as_json as as_json,
    restrict_record as restrict_record,
    write_page as write_page,
    write_result as write_result,
)
from rote.studies.run_pools import (
    Records as Records,
    find_finished as find_finished,
    prepare_study as prepare_study,
    read_trained as read_trained,
    record_measured as record_measured,
    record_numbers as record_numbers,
    record_pools as record_pools,
    run_pool as run_pool,
)
from rote.studies.study import Study, find_study, studies

__all__ = ["Pool", "Study", "find_study", "read_pools", "studies"]
