"""A rule is a file: it is found by looking, and describes itself."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from rote.errors import InputError
from rote.selection import RULES, About, Candidates, Decision, describe_rule, find_rule, select
from rote.selection.rules.extremum import Extremum
from tests.reporting.stores import write_store

ROOT = Path(__file__).parents[2]


def test_rules_in_the_docs_exist_and_are_in_the_order_of_lists() -> None:
    """A new rule needs one file; `rote select --rule help` lists it before the docs do."""
    table = (ROOT / "docs" / "selection.md").read_text(encoding="utf-8")
    table = table.partition("## The rules")[2].partition("\n- ")[0]
    named = re.findall(r"^\| `([a-z+-]+)`", table, re.MULTILINE)
    assert len(named) > 10
    assert named == [name for name in RULES if name in named]


def test_rules_describe_themselves() -> None:
    found = {name: describe_rule(rule) for name, rule in RULES.items()}
    assert all(entry.explanation.endswith((".", "sides")) for entry in found.values())
    assert {"regions", "staged", "percentile"} <= {n for n, e in found.items() if e.divides}
    assert found["filter"].divides_by == ("zeta",)
    assert all(found[name].not_resampled for name in ("auto", "consensus", "posterior"))
    assert all(found[name].is_baseline for name in ("last", "oracle"))
    assert describe_rule(Extremum("max", "gwa")).explanation == describe_rule(Extremum).explanation


def test_rules_without_a_description_use_defaults() -> None:
    class Silent:
        """It says nothing.

        Or little.
        """

    assert describe_rule(Silent) == About("It says nothing.")


@dataclass(frozen=True)
class First:
    """The first checkpoint."""

    skip: int = 0
    name: ClassVar[str] = "first"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = False

    def judge(self, candidates: Candidates) -> Decision:
        return Decision(self.skip, (f"{len(candidates)} candidates.",))


READY = First(skip=1)


def test_a_rule_is_found_where_it_is_written() -> None:
    here = __name__
    assert find_rule(f"{here}:First", {"skip": 2}) == First(2)
    assert find_rule(f"{here}:READY") is READY
    with pytest.raises(InputError, match="'first' has no option `jump`. It has skip"):
        find_rule(f"{here}:First", {"jump": 2})
    with pytest.raises(InputError, match="takes no further options"):
        find_rule(f"{here}:READY", {"skip": 2})
    with pytest.raises(InputError, match="is not a rule: it lacks needs, compares_runs, judge"):
        find_rule(f"{here}:ROOT")
    with pytest.raises(InputError, match="takes no further options"):
        find_rule("max:gwa", {"column": "f1"})


@dataclass(frozen=True)
class Careless:
    """Return a checkpoint instead of a decision."""

    start: int
    name: ClassVar[str] = "careless"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = False

    def judge(self, candidates: Candidates) -> Decision:
        return self.start  # type: ignore[return-value]


def test_a_rule_that_cannot_be_made_or_decides_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Rule 'careless' cannot be made: .* 'start'"):
        find_rule(f"{__name__}:Careless")
    with pytest.raises(InputError, match="'careless' returned 7. Return a rote.selection.Decision"):
        select(write_store(tmp_path / "runs"), Careless(7))
