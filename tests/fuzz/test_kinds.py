"""A short run of every attack; ``make fuzz`` makes long ones."""

from importlib import import_module

import pytest

from fuzz.__main__ import KINDS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_attack_finds_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTE_FSYNC", "1" if kind == "power_cut" else "0")
    seed = 1_794_906_460  # as the clock gives, which is that of `make fuzz`
    trials, findings = import_module(f"fuzz.{kind}").attack(seed, seconds=2.0)
    assert trials > 0
    assert findings == []
