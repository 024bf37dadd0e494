"""Several ranks from one start of Python: torch and a module are loaded once, then forked.

Run by ``launch.forked``: python -m tests.ranks.forked MODULE ARGUMENTS
"""

import os
import signal
import sys
from functools import partial
from importlib import import_module

import torch._dynamo  # noqa: F401  # the first step of an optimizer would load it, on each rank

from tests.ranks.launch import leave


def main() -> None:
    """Run ``main`` of the module on every rank; if it fails on one, the others are ended."""
    run = partial(import_module(sys.argv[1]).main, *sys.argv[2:])
    ranks = [_begin(rank, run) for rank in range(int(os.environ["WORLD_SIZE"]))]
    while ranks:
        process, status = os.wait()
        ranks.remove(process)
        if status:
            for other in ranks:
                os.kill(other, signal.SIGKILL)
            sys.exit(1)


def _begin(rank: int, run: "partial[None]") -> int:
    process = os.fork()
    if not process:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
        leave(run)
    return process


if __name__ == "__main__":
    main()
