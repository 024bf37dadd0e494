from fuzz.journal import attack


def test_damaged_runs_are_read_right_or_not_at_all() -> None:
    trials, findings = attack(seed=0, seconds=2)
    assert trials
    assert findings == []
