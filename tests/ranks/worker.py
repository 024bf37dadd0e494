"""One rank: runs the cases of some modules one after the other, and notes how each went."""

import sys
import tempfile
import traceback
import warnings
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import torch
from torch import distributed

from tests.ranks.launch import leave


def main() -> None:
    """Run every case; one case's failure does not keep the next from running."""
    names, folder = sys.argv[1].split(","), Path(sys.argv[2])
    torch.set_num_threads(1)
    modules = [import_module(f"tests.ranks.{name}") for name in names]
    cases = {case: run for module in modules for case, run in module.CASES.items()}
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


if __name__ == "__main__":
    leave(main)
