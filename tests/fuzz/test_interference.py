"""A short run of the attack on training; ``make fuzz`` runs it for longer."""

from fuzz.interference import attack


def test_training_withstands_the_attack() -> None:
    trials, findings = attack(seed=1, seconds=2.0)
    assert findings == []
    assert trials >= 1
