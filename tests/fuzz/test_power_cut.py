import pytest

from fuzz.power_cut import attack


def test_a_power_cut_loses_at_most_the_reading_that_is_being_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROTE_FSYNC", "1")
    trials, findings = attack(seed=0, seconds=2)
    assert trials
    assert findings == []


def test_without_waiting_for_the_disk_more_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack bites, and the switch works."""
    monkeypatch.setenv("ROTE_FSYNC", "0")
    _, findings = attack(seed=0, seconds=2)
    assert findings
