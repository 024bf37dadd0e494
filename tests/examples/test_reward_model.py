"""The example of preferences: the selected reward model beats the last one."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs trl")
pytest.importorskip("datasets", reason="needs rote[datasets]")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_selected_reward_model_beats_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    import reward_model  # type: ignore[import-not-found]

    found = reward_model.main(seed=0)
    assert found["selected"] > found["last"] + 0.1
    assert found["noise_rate"] == pytest.approx(reward_model.FLIPPED, abs=0.1)


def test_a_share_of_the_pairs_is_flipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    import reward_model

    good = {f"w{number}" for number in range(reward_model.WORDS // 2)}
    for flipped in (0.0, 0.3):
        pairs = reward_model.make_pairs(1000, 0, flipped)
        wrong = [not good & set(pair["chosen"].split()) for pair in pairs]
        assert sum(wrong) / 1000 == pytest.approx(flipped, abs=0.05)
