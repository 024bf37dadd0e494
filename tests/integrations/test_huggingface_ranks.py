import json
from pathlib import Path

import pytest

from rote.store import read_run
from tests.ranks.launch import forked

pytestmark = pytest.mark.slow

pytest.importorskip("transformers", reason="needs rote[huggingface]")


@pytest.mark.ddp
def test_two_ranks_agree_and_train_as_without_the_callback(tmp_path: Path) -> None:
    forked("tests.integrations.huggingface_worker", tmp_path, "token")
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert ranks[0] == ranks[1]
    assert (ranks[0]["world"], ranks[0]["wrapped"]) == (2, "DistributedDataParallel")
    drops = [reading["drop"] for reading in ranks[0]["readings"]]
    assert len(drops) == 3
    assert [reading.drop for reading in read_run(tmp_path / "run").readings] == drops
