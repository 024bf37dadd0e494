"""What callbacks tell people at the end."""

import pytest

import rote
from rote.integrations.messages import verdict_text
from rote.selection import select
from tests.selection.tables import table_of

pytestmark = pytest.mark.slow


def test_the_verdict_explains_that_the_stop_rule_kept_another() -> None:
    rows = [
        {"run": "a", "step": step, "train_accuracy": step / 20, "susceptibility": 1 / step}
        for step in range(1, 13)
    ]
    selection = select(table_of(rows))
    assert selection.pick.step == 12
    stop = rote.StopRule(noise_rate=0.6)
    assert "`stop`" not in verdict_text(selection, None, stop)  # it has kept nothing yet
    stop.keep = 8
    text = verdict_text(selection, "a.ckpt", stop)
    assert text.startswith("Keep step 12, a.ckpt (ζ ")
    assert "--noise-rate 0.6` says why. `stop`, which had to decide on the way" in text
    assert text.endswith("kept step 8.")
    stop.keep = 12
    assert verdict_text(selection, None, stop).endswith("says why.")
    assert "--noise-rate" not in verdict_text(selection, None, rote.StopRule())
