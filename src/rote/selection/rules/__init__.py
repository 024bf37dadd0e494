"""Every rule, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rote.errors import InputError, did_you_mean
from rote.selection.rule import Rule
from rote.selection.rules.before_rise import BeforeRise
from rote.selection.rules.consensus import Consensus
from rote.selection.rules.filter import Filter
from rote.selection.rules.last import Last
from rote.selection.rules.noisy_validation import (
    NoisyValidation,
    NoisyValidationThenSusceptibility,
)
from rote.selection.rules.oracle import Oracle
from rote.selection.rules.pareto import Pareto
from rote.selection.rules.percentile import Percentile
from rote.selection.rules.regions import Regions
from rote.selection.rules.staged import Staged

RULES: dict[str, type[Any]] = {
    rule.name: rule
    for rule in (
        Regions,
        Staged,
        Filter,
        Percentile,
        Pareto,
        Consensus,
        NoisyValidation,
        NoisyValidationThenSusceptibility,
        BeforeRise,
        Last,
        Oracle,
    )
}


def find_rule(rule: str | Rule, options: Mapping[str, Any]) -> Rule:
    """A rule by its name and options.

    Args:
        rule: a name in ``RULES``, or a rule as it is.
        options: fields of the rule to set.

    Raises:
        InputError: if there is no such rule or option, or an option does not fit.
    """
    if not isinstance(rule, str):
        if options:
            raise InputError(
                f"Expected no options beside a rule that is made already, got {sorted(options)}."
            )
        return rule
    if rule not in RULES:
        raise InputError(
            f"Expected `rule` to be one of {', '.join(RULES)}, got {rule!r}."
            f"{did_you_mean(rule, RULES)}"
        )
    known = [entry.name for entry in fields(RULES[rule])]
    for name in options:
        if name not in known:
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise InputError(f"Expected an option of rule {rule!r}, got `{name}`. {has}")
    made: Rule = RULES[rule](**options)
    return made
