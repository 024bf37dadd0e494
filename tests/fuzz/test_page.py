from fuzz.page import attack


def test_a_short_attack_finds_nothing() -> None:
    trials, findings = attack(seed=0, seconds=2.0)
    assert findings == []
    assert trials
