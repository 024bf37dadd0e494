"""Selecting a checkpoint: rules, evidence, suspected labels, agreement with the truth. No torch."""

from rote.selection.agreement import (
    Agreement,
    agreement,
    correlation,
    correlation_of,
    regret,
    resampled_correlation,
    resampled_regret,
)
from rote.selection.bootstrap import Draws, Estimate
from rote.selection.candidates import (
    Booleans,
    Candidates,
    Floats,
    Integers,
    candidates_of,
    numbers,
)
from rote.selection.groups import Group, comparable_groups, plain_text, settings_of
from rote.selection.label_errors import LabelErrors, rank_label_errors
from rote.selection.regions import REGIONS, RegionSummary, is_resistant, percentile
from rote.selection.rule import About, Decision, Findings, Grade, Reason, Rule, Suspect, about
from rote.selection.rules import FAMILIES, RULES, find_rule
from rote.selection.select_checkpoint import (
    DEFAULT_RULE,
    choose,
    select,
    select_groups,
    table_of,
    tables_of,
    usable_for,
)
from rote.selection.selection import Baseline, Evidence, Pick, Selection, copy_checkpoint
from rote.selection.summary import HOLDOUT_HINT, Explanation, Section, Summary, SummaryRow, compare
from rote.selection.suspects import (
    RankedLabel,
    SuspectLabel,
    SuspectRanking,
    Suspicion,
    as_csv,
    find_suspects,
    rank_suspects,
)
from rote.selection.warnings import why_no_zeta

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
    "Section",
    "Selection",
    "Summary",
    "SummaryRow",
    "Suspect",
    "SuspectLabel",
    "SuspectRanking",
    "Suspicion",
    "about",
    "agreement",
    "as_csv",
    "candidates_of",
    "choose",
    "comparable_groups",
    "compare",
    "copy_checkpoint",
    "correlation",
    "correlation_of",
    "find_rule",
    "find_suspects",
    "is_resistant",
    "numbers",
    "percentile",
    "plain_text",
    "rank_label_errors",
    "rank_suspects",
    "regret",
    "resampled_correlation",
    "resampled_regret",
    "select",
    "select_groups",
    "settings_of",
    "table_of",
    "tables_of",
    "usable_for",
    "why_no_zeta",
]
