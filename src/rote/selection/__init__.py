"""Choosing a checkpoint: regions, rules, how well they agree with the truth. No torch."""

from rote.selection.candidates import Candidates
from rote.selection.entrance import select
from rote.selection.record import Pick, Selection
from rote.selection.regions import RegionSummary
from rote.selection.rule import Rule, Verdict
from rote.selection.rules import RULES

__all__ = [
    "RULES",
    "Candidates",
    "Pick",
    "RegionSummary",
    "Rule",
    "Selection",
    "Verdict",
    "select",
]
