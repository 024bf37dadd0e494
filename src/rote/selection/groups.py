"""Groups of comparable runs, with the same data, classes, labels and holdout.

The settings of a run are those of its spec if it has one, otherwise those of ``run.json``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, did_you_mean, quote
from rote.store import flatten_tables

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.store import RunTable

_NOT_CHOSEN = {"schema", "command", "columns", "rows", "start", "checksums"}
_TOLD_ELSEWHERE = {"name", "created", "versions", "run_directory", *_NOT_CHOSEN}
_TOO_LONG = {"labels.values", "holdout.hash", "given_labels"}
_MOST_SPECS = 200  # to read for their schedules
_LETTERS = 12  # of a hash: enough to tell two apart


def read_settings(description: Mapping[str, Any], workload: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a run as text, by name, with dots between section and field."""
    spec = workload.get("spec")
    source = spec if isinstance(spec, dict) else description
    found = flatten({name: value for name, value in source.items() if name not in _TOLD_ELSEWHERE})
    return {name: value for name, value in found.items() if name not in _TOO_LONG}


def read_facts(description: Mapping[str, Any], workload: Mapping[str, Any]) -> dict[str, str]:
    """Return all properties of a run as text, by which runs can be chosen.

    ``run.json``, the description of the data under ``data``, and the spec, which wins. Of labels
    and holdouts there are the first letters of a hash.
    """
    data, spec = workload.get("data"), workload.get("spec")
    told = flatten({name: value for name, value in description.items() if name not in _NOT_CHOSEN})
    told |= flatten({"data": data} if isinstance(data, dict) else {})
    told |= flatten(spec if isinstance(spec, dict) else {})
    told.pop("labels.values", None)
    if "given_labels" in told:
        told["given_labels"] = hashlib.sha256(told["given_labels"].encode()).hexdigest()
    for name in {"given_labels", "holdout.hash"} & told.keys():
        told[name] = told[name][:_LETTERS]
    return told


def flatten(values: Mapping[str, Any]) -> dict[str, str]:
    """Flatten nested values to texts under dotted names, without unset values.

    Example:
        >>> flatten({"optimizer": {"lr": 0.1, "betas": [0.9, 0.99]}, "seed": 0, "holdout": None})
        {'optimizer.lr': '0.1', 'optimizer.betas': '0.9, 0.99', 'seed': '0'}
    """
    known = ((name, value) for name, value in flatten_tables(values) if value is not None)
    return {name: write_plainly(value) for name, value in known if value != {}}


def write_plainly(value: object) -> str:
    """Return one value as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(write_plainly(entry) for entry in value)
    return str(value)


def find_step_differences(candidates: Candidates) -> tuple[str, ...]:
    """Return in which settings that scale a training step the runs differ, in words.

    Args:
        candidates: checkpoints of several runs.

    Returns:
        Of ``learning rate``, ``optimizer`` and ``schedule``, those with more than one value. What
        a run does not record differs from nothing.
    """
    table = candidates.table
    names = [candidates.runs[code] for code in sorted(set(candidates.run.tolist()))]
    values: dict[str, set[str]] = {"learning rate": set(), "optimizer": set(), "schedule": set()}
    for name in names:
        told = table.descriptions.get(name, {}).get("optimizer")
        if isinstance(told, Mapping):
            settings = told.get("settings")
            lr = settings.get("lr") if isinstance(settings, Mapping) else None
            values["optimizer"].add(str(told.get("class")))
            values["learning rate"] |= set() if lr is None else {write_plainly(lr)}
        if len(names) <= _MOST_SPECS:
            spec = table.read_workload(name).get("spec")
            schedule = spec.get("schedule") if isinstance(spec, Mapping) else None
            values["schedule"] |= set() if schedule is None else {str(schedule)}
    return tuple(what for what, found in values.items() if len(found) > 1)


_MOST_LISTED = 8
_FOLD = "probe.fold"
_FIRST_KEYS = (
    "data.name",
    "data.path",
    "data.labels",
    "num_classes",
    "noise.model",
    "noise.rate",
    "data.seed",
    "noise.seed",
    _FOLD,
)
_LAST_KEYS = ("given_labels", "holdout.hash", "name", "created")
_UNKNOWN = "not recorded"


@dataclass(frozen=True)
class Group:
    """Comparable runs: their records of data and labels do not contradict each other.

    Attributes:
        runs: their names, sorted.
        known: what they say: ``num_classes``, ``holdout``, ``given_labels`` and, of runs without
            these two, ``data`` and ``noise``.

    Example:
        >>> Group(("a", "b"), {"num_classes": "10"}).runs
        ('a', 'b')
    """

    runs: tuple[str, ...]
    known: Mapping[str, str]


def find_comparable_groups(table: RunTable) -> tuple[Group, ...]:
    """Divide the runs of a table into groups that may be compared; largest first.

    Two runs contradict each other if both say what their classes, their holdout, its given labels
    or their data are, and it is not the same. What says nothing contradicts nothing: it joins the
    only group that it does not contradict, or one of its own kind. There is one group exactly if no
    two runs contradict each other.

    Args:
        table: the runs.

    Returns:
        The groups.

    Example:
        >>> import polars as pl
        >>> from rote.store import RunTable
        >>> frame = pl.DataFrame({"run": ["a", "b"], "row": [0, 0], "step": [1, 1]})
        >>> table = RunTable(frame, {"a": {"num_classes": 2}, "b": {"num_classes": 10}})
        >>> [group.runs for group in find_comparable_groups(table)]
        [('a',), ('b',)]
    """
    members: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in _list_runs(table):
        members.setdefault(tuple(sorted(_read_group_facts(table, run).items())), []).append(run)
    found: list[tuple[dict[str, str], list[str]]] = []
    # Runs with the most properties come first, so that the order of runs does not matter.
    for said in sorted(members, key=lambda said: (-len(said), said)):
        fitting = [group for group in found if _agree(group[0], said)]
        if len(fitting) == 1:
            fitting[0][0].update(said)
            fitting[0][1].extend(members[said])
        else:
            found.append((dict(said), list(members[said])))
    groups = [Group(tuple(sorted(runs)), known) for known, runs in found]
    return tuple(sorted(groups, key=lambda group: (-len(group.runs), group.runs)))


def check_comparable(table: RunTable) -> None:
    """Refuse runs that must not be compared.

    Raises:
        InputError: if there is more than one group; it lists them, and says how to choose.
    """
    groups = find_comparable_groups(table)
    if len(groups) < 2:
        return
    facts = _collect_facts(table)
    key, told = _find_telling(facts, groups), _list_differences(facts, groups)
    if key == _FOLD:
        raise InputError(
            f"The {len(groups)} runs are folds of one training: each holds out other samples, so "
            "that their checkpoints cannot be compared. List the label errors with rote suspects "
            "(without --by), select within each fold with rote select --group-by probe.fold "
            "(rote.selection.select_groups), or train a run to keep without --folds."
        )
    listed = [
        f"{_count(group)} ({' '.join(pairs) or 'such as ' + quote(group.runs[0])})"
        for group, pairs in zip(groups, told, strict=True)
    ]
    more = [f"and {len(groups) - _MOST_LISTED} more"] if len(groups) > _MOST_LISTED else []
    what = {name for group in groups for name in group.known}
    differing = [name for name in what if len({group.known.get(name) for group in groups}) > 1]
    first = next((pairs for pairs in told if pairs), ["KEY=VALUE"])
    raise InputError(
        f"The runs cannot be compared: they form {len(groups)} groups that differ in "
        f"{', '.join(sorted(differing))} ({', '.join([*listed[:_MOST_LISTED], *more])}). Choose "
        f"one group with {' '.join(f'--where {quote(pair)}' for pair in first)} (where={{...}}), "
        f"or select in each group with rote select --group-by {key or 'KEY'} "
        "(rote.selection.select_groups)."
    )


def filter_runs(table: RunTable, where: Mapping[str, Any]) -> RunTable:
    """Return the runs whose ``run.json``, data or spec have a value, under dotted names.

    Raises:
        InputError: if no run has the name, or none has the value.
    """
    facts = _collect_facts(table)
    for key, value in where.items():
        wanted = _normalize(write_plainly(value))
        kept = [run for run in facts if _normalize(facts[run].get(key, "")) == wanted]
        if not kept or not wanted:
            raise InputError(_explain_nothing_found(facts, key, write_plainly(value)))
        facts = {run: facts[run] for run in kept}
    return take_runs(table, facts)


def group_runs(table: RunTable, key: str) -> dict[str, RunTable]:
    """Return the runs by their value of a dotted name, in order.

    Raises:
        InputError: if no run has the name.
    """
    facts = _collect_facts(table)
    members: dict[str, list[str]] = {}
    for run, told in facts.items():
        members.setdefault(told.get(key, _UNKNOWN), []).append(run)
    if set(members) <= {_UNKNOWN}:
        raise InputError(_explain_nothing_found(facts, key, None))
    return {value: take_runs(table, members[value]) for value in sorted(members, key=_order)}


def take_runs(table: RunTable, runs: Iterable[str]) -> RunTable:
    """Return a table of some of the runs."""
    import polars as pl

    kept = set(runs)
    return replace(
        table,
        frame=table.frame.filter(pl.col("run").is_in(list(kept))),
        descriptions={run: told for run, told in table.descriptions.items() if run in kept},
        paths={run: path for run, path in table.paths.items() if run in kept},
    )


def _list_runs(table: RunTable) -> list[str]:
    found: list[str] = table.frame["run"].unique(maintain_order=True).to_list()
    return found


def _read_group_facts(table: RunTable, run: str) -> dict[str, str]:
    """Return a run's record of its data, reading only the files that are needed."""
    description = table.descriptions.get(run, {})
    holdout = description.get("holdout")
    # run.json may have been edited: ignore values that are impossible.
    classes = str(description.get("num_classes"))
    holdout_hash = holdout.get("hash") if isinstance(holdout, Mapping) else None
    given = description.get("given_labels")
    known: dict[str, Any] = {
        "num_classes": classes if classes.isdecimal() and int(classes) > 1 else None,
        "holdout": holdout_hash if isinstance(holdout_hash, str) else None,
        "given_labels": given if isinstance(given, str) else None,
    }
    if known["holdout"] is None or known["given_labels"] is None:
        data = table.read_workload(run).get("data")
        if isinstance(data, Mapping):
            known |= {"data": data.get("name"), "noise": data.get("noise")}
    return {name: write_plainly(value) for name, value in known.items() if value is not None}


def _agree(known: Mapping[str, str], said: Iterable[tuple[str, str]]) -> bool:
    return all(known.get(name, value) == value for name, value in said)


def _collect_facts(table: RunTable) -> dict[str, dict[str, str]]:
    return {
        run: read_facts(table.descriptions.get(run, {}), table.read_workload(run))
        for run in _list_runs(table)
    }


def _find_telling(facts: Mapping[str, Mapping[str, str]], groups: tuple[Group, ...]) -> str | None:
    """Return the first name whose value is constant in every group and different between groups."""
    names = dict.fromkeys(name for told in facts.values() for name in told)
    ordered = [
        *_find_known_keys(facts),
        *(name for name in names if name not in _LAST_KEYS),
        *_LAST_KEYS,
    ]
    for key in dict.fromkeys(name for name in ordered if name in names):
        flat = _read_said(facts, groups, key)
        if None not in flat and len(set(flat)) == len(flat):
            return key
    return None


def _list_differences(
    facts: Mapping[str, Mapping[str, str]], groups: tuple[Group, ...]
) -> list[list[str]]:
    """Return the fewest ``KEY=VALUE`` that identify each group; well-known keys come first."""
    pairs: list[list[str]] = [[] for _ in groups]
    for key in (*_find_known_keys(facts), _find_telling(facts, groups)):
        said = _read_said(facts, groups, key) if key else []
        apart = len({tuple(found) for found in pairs})
        longer = [
            found if value is None else [*found, f"{key}={value}"]
            for found, value in zip(pairs, said or [None] * len(groups), strict=True)
        ]
        pairs = longer if len({tuple(found) for found in longer}) > apart else pairs
    return pairs


def _find_known_keys(facts: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return the file of each data set if all have one, otherwise its name."""
    by_file = all("data.path" in told for told in facts.values())
    return tuple(dict.fromkeys(("data.path", *_FIRST_KEYS))) if by_file else _FIRST_KEYS


def _read_said(
    facts: Mapping[str, Mapping[str, str]], groups: tuple[Group, ...], key: str
) -> list[str | None]:
    """Return the value of each group under a name; None if it has none or several."""
    values = [{facts[run].get(key) for run in group.runs} for group in groups]
    return [next(iter(found)) if len(found) == 1 else None for found in values]


def _count(group: Group) -> str:
    return "1 run" if len(group.runs) == 1 else f"{len(group.runs)} runs"


def _explain_nothing_found(
    facts: Mapping[str, Mapping[str, str]], key: str, value: str | None
) -> str:
    names = sorted({name for told in facts.values() for name in told})
    found = Counter(told[key] for told in facts.values() if key in told)
    if not found:
        return (
            f"Expected a property that the runs record "
            f"({', '.join(names[:40]) or 'nothing'}), got {quote(key)}.{did_you_mean(key, names)}"
        )
    values = ", ".join(quote(entry) for entry, _ in found.most_common(_MOST_LISTED))
    return f"No run has {key}={value}. The runs have {values}."


def _normalize(text: str) -> str:
    """Normalize texts, so that equal numbers and booleans are equal texts."""
    answer = {"true": "yes", "false": "no"}.get(text.lower(), text)
    try:
        return repr(float(answer))
    except ValueError:
        return answer


def _order(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
