"""The verdict at the end of training."""

import rote
from rote.integrations.messages import write_verdict
from rote.selection import select
from tests.selection.tables import table_of


def test_the_verdict_mentions_that_the_stop_rule_kept_another_checkpoint() -> None:
    rows = [
        {"run": "a", "step": step, "train_accuracy": step / 20, "susceptibility": 1 / step}
        for step in range(1, 13)
    ]
    selection = select(table_of(rows))
    assert selection.pick.step == 12
    stop = rote.StopRule(noise_rate=0.6)
    assert "stop rule" not in write_verdict(selection, "hold out", stop)  # it has kept nothing yet
    stop.keep = 8
    text = write_verdict(selection, "hold out", stop)
    assert "step 12" in text
    assert "stop rule" in text
    assert "kept step 8" in text
    stop.keep = 12
    assert "kept step" not in write_verdict(selection, "hold out", stop)
