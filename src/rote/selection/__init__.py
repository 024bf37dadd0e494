"""Checkpoint selection: rules, label errors, and agreement with the truth; without torch."""

from rote.selection.agreement import (
    Agreement,
    agreement,
    correlate as correlate,
    correlation as correlation,
    regret,
    resample_correlation as resample_correlation,
    resample_regret as resample_regret,
)
from rote.selection.bootstrap import Draws, Estimate
from rote.selection.candidates import (
    Booleans as Booleans,
    Candidates,
    Floats as Floats,
    Integers as Integers,
    convert_to_numbers as convert_to_numbers,
    make_candidates as make_candidates,
)
from rote.selection.groups import (
    Group,
    find_comparable_groups,
    read_settings as read_settings,
    write_plainly as write_plainly,
)
from rote.selection.label_errors import rank_label_errors, rank_out_of_sample as rank_out_of_sample
from rote.selection.regions import (
    REGIONS as REGIONS,
    RegionSummary as RegionSummary,
    is_resistant as is_resistant,
    percentile as percentile,
)
from rote.selection.rule import (
    About as About,
    Decision,
    Findings as Findings,
    Reason,
    Rule,
    Suspect as Suspect,
    describe_rule as describe_rule,
)
from rote.selection.rules import (
    FAMILIES as FAMILIES,
    RULES as RULES,
    find_rule,
    load_installed_rules as load_installed_rules,
)
from rote.selection.select_checkpoint import (
    DEFAULT_RULE as DEFAULT_RULE,
    choose as choose,
    keep_usable as keep_usable,
    read_groups as read_groups,
    read_runs as read_runs,
    select,
    select_groups,
)
from rote.selection.selection import Pick, Selection, copy_checkpoint
from rote.selection.suspects import (
    RankedLabel as RankedLabel,
    SuspectLabel as SuspectLabel,
    SuspectRanking as SuspectRanking,
    Suspicion as Suspicion,
    as_csv as as_csv,
    find_suspects,
    rank_suspects,
)
from rote.selection.warnings import explain_no_zeta as explain_no_zeta

__all__ = [
    "Agreement",
    "Candidates",
    "Decision",
    "Draws",
    "Estimate",
    "Group",
    "Pick",
    "Reason",
    "Rule",
    "Selection",
    "agreement",
    "copy_checkpoint",
    "find_comparable_groups",
    "find_rule",
    "find_suspects",
    "rank_label_errors",
    "rank_suspects",
    "regret",
    "select",
    "select_groups",
]
