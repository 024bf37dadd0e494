import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rote.store import read_run
from tests.ranks.launch import ABORTED_AT_EXIT

pytest.importorskip("transformers", reason="needs rote[huggingface]")

ROOT = Path(__file__).parents[2]


@pytest.mark.ddp
def test_two_ranks_agree_and_train_as_without_the_callback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    worker = ROOT / "tests" / "integrations" / "huggingface_worker.py"
    done = subprocess.run(
        [*command, str(worker), str(tmp_path), "token"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    # What was written is judged below.
    assert done.returncode == 0 or ABORTED_AT_EXIT in done.stderr, done.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    assert ranks[0] == ranks[1]
    assert (ranks[0]["world"], ranks[0]["wrapped"]) == (2, "DistributedDataParallel")
    drops = [reading["drop"] for reading in ranks[0]["readings"]]
    assert len(drops) == 3
    assert [reading.drop for reading in read_run(tmp_path / "run").readings] == drops
