"""One rank: runs the cases of some modules one after the other, and notes how each went."""

import tempfile
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from tests.ranks import agreement_cases, ddp_cases, fsdp_cases, other_pairs, refusal_cases

MODULES: dict[str, Any] = {
    module.__name__.rpartition(".")[2]: module
    for module in (agreement_cases, ddp_cases, fsdp_cases, other_pairs, refusal_cases)
}


def main(names: str, place: str) -> None:
    """Run every case; one case's failure does not keep the next from running."""
    folder = Path(place)
    torch.set_num_threads(1)
    cases = {
        f"{name}: {case}": run
        for name in names.split(",")
        for case, run in MODULES[name].CASES.items()
    }
    warnings.simplefilter("error")  # after torch's own imports, which may warn
    distributed.init_process_group("gloo", timeout=timedelta(seconds=240))
    rank = distributed.get_rank()
    with (folder / f"rank{rank}.txt").open("w") as report:
        for case, run in cases.items():
            outcome = ""
            shared = [tempfile.mkdtemp(dir=folder) if rank == 0 else ""]
            distributed.broadcast_object_list(shared)
            try:
                run(Path(shared[0]))
            except BaseException:  # noqa: BLE001  # the report is read by pytest
                outcome = traceback.format_exc()
                traceback.print_exc()  # seen if the next case cannot go on
            report.write(f"{case}\n{outcome}\x1e")
            report.flush()
            distributed.barrier()
    distributed.destroy_process_group()
