"""A short run of the attack; ``make fuzz`` makes a long one."""

from fuzz.command_line import attack


def test_a_short_attack_finds_nothing() -> None:
    trials, findings = attack(seed=12, seconds=2.0)
    assert trials > 0
    assert findings == []
