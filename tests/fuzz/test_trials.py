from random import Random

import pytest

from fuzz._trials import MOST_FINDINGS, repeat

pytestmark = pytest.mark.slow


def test_a_trial_can_be_reproduced_from_its_number() -> None:
    drawn: list[float] = []

    def trial(chance: Random) -> list[str]:
        drawn.append(chance.random())
        return ["bad"]

    _, (finding, *_) = repeat(trial, seed=3, seconds=0)
    number = int(finding.removeprefix("trial ").partition(":")[0])
    assert Random(number).random() == drawn[0]


def test_exceptions_are_findings_and_their_number_is_limited() -> None:
    def trial(_chance: Random) -> list[str]:
        raise ZeroDivisionError("no")

    trials, findings = repeat(trial, seed=0, seconds=60)
    assert trials == len(findings) == MOST_FINDINGS
    assert findings[0].endswith(": ZeroDivisionError: no")
