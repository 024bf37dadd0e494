import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rote.store import read_run

pytestmark = pytest.mark.slow

pytest.importorskip("lightning", reason="needs the extra `lightning`")

SCRIPT = Path(__file__).with_name("lightning_ranks.py")


@pytest.mark.ddp
def test_two_ranks_train_as_without_the_callback_and_agree(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path],
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    for seen in ranks:
        assert seen["own_accuracy"] == seen["alone"]
        assert seen["first_only"] == seen["alone"]
    # Each rank saw half of the samples, in its own order: there was something to disturb.
    assert ranks[0]["alone"][0] != ranks[1]["alone"][0]
    for name, accuracy in (("own_accuracy", 0.5), ("first_only", 0.25)):
        assert ranks[0][f"{name} logged"] == ranks[1][f"{name} logged"]
        assert ranks[0][f"{name} readings"] == ranks[1][f"{name} readings"]
        assert [found for _, found in ranks[0][f"{name} readings"]] == [accuracy] * 6
        written = [reading.drop for reading in read_run(tmp_path / name).readings]
        drops = [drop for drop, _ in ranks[0][f"{name} readings"]]
        # The first run was taken up again where its checkpoint was kept.
        assert written == (ranks[0]["resumed"] if name == "own_accuracy" else drops)
    keep = ranks[0]["keep"][0]
    before = [drop for drop, _ in ranks[0]["own_accuracy readings"]]
    assert ranks[0]["resumed"] == ranks[1]["resumed"]
    assert ranks[0]["resumed"][:keep] == before[:keep]
    assert len(ranks[0]["resumed"]) == 8
    assert ranks[0]["keep"] == ranks[1]["keep"]
    assert ranks[0]["keep"][1] == str(tmp_path / "keep.ckpt")
    assert ranks[0]["stopped"] == ranks[1]["stopped"]
    assert ranks[0]["stopped"][:3] == [2, True, 1]
    for rank, seen in enumerate(ranks):
        alone, watched, accuracies, warnings, is_shown = seen["measured"]
        assert is_shown  # to its signal: every batch of this rank, in order
        assert watched == alone
        assert len(accuracies) == 3
        assert accuracies == ranks[0]["measured"][2]  # the mean of two networks' BatchNorms
        assert warnings == (1 if rank == 0 else 0)
    for seen in ranks:
        assert seen["sharded"][0] == seen["sharded"][1]
    assert ranks[0]["sharded readings"] == ranks[1]["sharded readings"]
    assert len(ranks[0]["sharded readings"]) == 2
