"""Choosing a checkpoint: regions, rules, how well they agree with the truth. No torch."""

from rote.selection.agreement import Agreement, agreement, correlation
from rote.selection.bootstrap import Draws, Estimate
from rote.selection.candidates import (
    Booleans,
    Candidates,
    Floats,
    Integers,
    candidates_of,
    numbers,
)
from rote.selection.formatting import as_percent, as_text, is_share
from rote.selection.regions import REGIONS, RegionSummary, is_resistant, percentile
from rote.selection.regret import regret
from rote.selection.rule import About, Rule, Verdict, about
from rote.selection.rules import FAMILIES, RULES, find_rule
from rote.selection.select_checkpoint import DEFAULT_RULE, choose, select, table_of
from rote.selection.selection import Pick, Selection

__all__ = [
    "DEFAULT_RULE",
    "FAMILIES",
    "REGIONS",
    "RULES",
    "About",
    "Agreement",
    "Booleans",
    "Candidates",
    "Draws",
    "Estimate",
    "Floats",
    "Integers",
    "Pick",
    "RegionSummary",
    "Rule",
    "Selection",
    "Verdict",
    "about",
    "agreement",
    "as_percent",
    "as_text",
    "candidates_of",
    "choose",
    "correlation",
    "find_rule",
    "is_resistant",
    "is_share",
    "numbers",
    "percentile",
    "regret",
    "select",
    "table_of",
]
