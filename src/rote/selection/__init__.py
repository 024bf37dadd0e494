"""Choosing a checkpoint: regions, rules, how well they agree with the truth. No torch."""

from rote.selection.agreement import (
    Agreement,
    agreement,
    correlation,
    correlation_of,
    resampled_correlation,
)
from rote.selection.baseline_comparison import Baseline
from rote.selection.bootstrap import Draws, Estimate
from rote.selection.candidates import (
    Booleans,
    Candidates,
    Floats,
    Integers,
    candidates_of,
    numbers,
)
from rote.selection.checkpoint_copy import copy_checkpoint
from rote.selection.groups import Group, comparable_groups
from rote.selection.regions import REGIONS, RegionSummary, is_resistant, percentile
from rote.selection.regret import regret, resampled_regret
from rote.selection.rule import About, Findings, Rule, Suspect, Verdict, about
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
from rote.selection.selection import Pick, Selection
from rote.selection.selection_text import compared
from rote.selection.settings import plain_text, settings_of
from rote.selection.suspects import SuspectLabel, Suspicion, as_csv, find_suspects
from rote.selection.warnings import why_no_zeta

__all__ = [
    "DEFAULT_RULE",
    "FAMILIES",
    "REGIONS",
    "RULES",
    "About",
    "Agreement",
    "Baseline",
    "Booleans",
    "Candidates",
    "Draws",
    "Estimate",
    "Findings",
    "Floats",
    "Group",
    "Integers",
    "Pick",
    "RegionSummary",
    "Rule",
    "Selection",
    "Suspect",
    "SuspectLabel",
    "Suspicion",
    "Verdict",
    "about",
    "agreement",
    "as_csv",
    "candidates_of",
    "choose",
    "comparable_groups",
    "compared",
    "copy_checkpoint",
    "correlation",
    "correlation_of",
    "find_rule",
    "find_suspects",
    "is_resistant",
    "numbers",
    "percentile",
    "plain_text",
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
