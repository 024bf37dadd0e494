"""The rules by name: the files of this folder, and entry points of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from rote.errors import InputError, did_you_mean
from rote.extras import find_classes, import_named
from rote.plugins import find_lacking, list_plugins, load_plugin, load_plugins
from rote.selection.rule import Rule, describe_rule

_FOUND = tuple(find_classes(__name__, "judge"))

FAMILIES: dict[str, type[Any]] = {
    prefix: rule for rule in _FOUND for prefix in getattr(rule, "prefixes", ())
}
"""Rules whose name contains a column, keyed by the part before the colon."""

RULES: dict[str, type[Any]] = {
    rule.name: rule
    for rule in sorted(
        (rule for rule in _FOUND if rule not in FAMILIES.values()),
        key=lambda rule: (describe_rule(rule).order, rule.name),
    )
}
"""The other rules, in the order of listings."""

_NEEDED = ("name", "needs", "compares_runs", "judge")


def load_installed_rules() -> dict[str, type[Any] | Rule]:
    """Return the rules of other packages, by their entry point in ``rote.rules``.

    Those that cannot be imported are left out with a warning.
    """
    return load_plugins("rules", (*RULES, *FAMILIES), _find_fault)


def _find_fault(rule: object, name: str) -> str | None:
    if fault := find_lacking(rule, name, _NEEDED, methods=("judge",)):
        return fault
    needs: object = rule.needs  # type: ignore[attr-defined]  # it does not lack it
    is_text = isinstance(needs, str)  # or its letters would be columns
    return f"its `needs` is a string: write ({needs!r},)" if is_text else None


def find_rule(rule: str | Rule, options: Mapping[str, Any] | None = None) -> Rule:
    """Return a rule by its name and options.

    Args:
        rule: a name in ``RULES`` or ``load_installed_rules()``, ``max:COLUMN``, ``min:COLUMN``,
            your own ``package.module:Name``, or a rule object.
        options: fields of the rule to set.

    Returns:
        The rule, with its options set.

    Raises:
        InputError: if there is no such rule or option, or an option does not fit.

    Example:
        >>> find_rule("noise-rate", {"noise_rate": 0.4}).noise_rate
        0.4
    """
    found = _find_by_name(rule) if isinstance(rule, str) else rule
    if isinstance(found, type):
        return _make(found, options or {})
    if options:
        raise InputError(
            f"A rule object takes no further options ({sorted(options)}). Pass them when you make "
            "it."
        )
    return found


def _find_by_name(name: str) -> Rule | type[Any]:
    prefix, colon, rest = name.partition(":")
    if colon and prefix in FAMILIES:
        family: Rule = FAMILIES[prefix](prefix, rest)
        return family
    if colon:
        return _import_own(name)
    if name in RULES:
        return RULES[name]
    if name in (installed := list_plugins("rules", (*RULES, *FAMILIES))):
        plugin: Rule | type[Any] = load_plugin("rules", name, _find_fault)
        return plugin
    known = [*RULES, *installed, *(f"{prefix}:COLUMN" for prefix in FAMILIES)]
    raise InputError(
        f"Expected `rule` to be one of {', '.join(known)} or package.module:Name, got {name!r}."
        f"{did_you_mean(name, [*RULES, *installed])}"
    )


def _import_own(address: str) -> Rule | type[Any]:
    found: Rule | type[Any] = import_named(address, "rule")
    if lacking := [name for name in _NEEDED if not hasattr(found, name)]:
        raise InputError(f"`rule` {address!r} is not a rule: it lacks {', '.join(lacking)}.")
    return found


def _make(kind: type[Any], options: Mapping[str, Any]) -> Rule:
    known = [entry.name for entry in fields(kind)] if is_dataclass(kind) else []
    for option in options:
        if option not in known:
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise InputError(f"Rule {kind.name!r} has no option `{option}`. {has}")
    try:
        made: Rule = kind(**options)
    except TypeError as error:  # such as an argument that is missing
        raise InputError(f"Rule {kind.name!r} cannot be made: {error}.") from error
    return made
