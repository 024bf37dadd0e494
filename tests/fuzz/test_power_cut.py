import pytest

from fuzz.power_cut import attack

pytestmark = pytest.mark.slow


def test_without_waiting_for_the_disk_more_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack bites, and the switch works."""
    monkeypatch.setenv("ROTE_FSYNC", "0")
    _, findings = attack(seed=0, seconds=2)
    assert findings
