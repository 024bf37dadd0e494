"""Selecting a checkpoint: rules, evidence, suspected labels, agreement with the truth. No torch."""

from rote.selection.agreement import (
    Agreement,
    agreement,
    correlate,
    correlation,
    regret,
    resample_correlation,
    resample_regret,
)
from rote.selection.bootstrap import Draws, Estimate
from rote.selection.candidates import (
    Booleans,
    Candidates,
    Floats,
    Integers,
    convert_to_numbers,
    make_candidates,
)
from rote.selection.groups import Group, find_comparable_groups, read_settings, write_plainly
from rote.selection.label_errors import LabelErrors, rank_label_errors
from rote.selection.regions import REGIONS, RegionSummary, is_resistant, percentile
from rote.selection.rule import About, Decision, Findings, Grade, Reason, Rule, Suspect, about
from rote.selection.rules import FAMILIES, RULES, find_rule
from rote.selection.select_checkpoint import (
    DEFAULT_RULE,
    choose,
    keep_usable,
    read_groups,
    read_runs,
    select,
    select_groups,
)
from rote.selection.selection import Baseline, Evidence, Pick, Selection, copy_checkpoint
from rote.selection.summary import (
    HOLDOUT_HINT,
    Explanation,
    Summary,
    SummaryRow,
    SummarySection,
    compare,
)
from rote.selection.suspects import (
    RankedLabel,
    SuspectLabel,
    SuspectRanking,
    Suspicion,
    as_csv,
    find_suspects,
    rank_suspects,
)
from rote.selection.warnings import explain_no_zeta

__all__ = [
    "DEFAULT_RULE",
    "FAMILIES",
    "HOLDOUT_HINT",
    "REGIONS",
    "RULES",
    "About",
    "Agreement",
    "Baseline",
    "Booleans",
    "Candidates",
    "Decision",
    "Draws",
    "Estimate",
    "Evidence",
    "Explanation",
    "Findings",
    "Floats",
    "Grade",
    "Group",
    "Integers",
    "LabelErrors",
    "Pick",
    "RankedLabel",
    "Reason",
    "RegionSummary",
    "Rule",
    "Selection",
    "Summary",
    "SummaryRow",
    "SummarySection",
    "Suspect",
    "SuspectLabel",
    "SuspectRanking",
    "Suspicion",
    "about",
    "agreement",
    "as_csv",
    "choose",
    "compare",
    "convert_to_numbers",
    "copy_checkpoint",
    "correlate",
    "correlation",
    "explain_no_zeta",
    "find_comparable_groups",
    "find_rule",
    "find_suspects",
    "is_resistant",
    "keep_usable",
    "make_candidates",
    "percentile",
    "rank_label_errors",
    "rank_suspects",
    "read_groups",
    "read_runs",
    "read_settings",
    "regret",
    "resample_correlation",
    "resample_regret",
    "select",
    "select_groups",
    "write_plainly",
]
