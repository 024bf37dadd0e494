"""Start several ranks with torchrun, and end them all if they do not end by themselves."""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
DEADLINE = 300.0

ABORTED_AT_EXIT = "terminate called without an active exception"


def torchrun(
    *command: str | Path, ranks: int = 2, deadline: float = DEADLINE, may_abort: bool = False
) -> str:
    """Run a script or module on several ranks; what they print, or an error that shows it.

    torch 2.13 may abort a process with gloo when its interpreter ends, with or without rote. The
    workers of the tests therefore ``leave``. For others ``may_abort`` lets it pass, and what was
    printed and written by then is judged by the caller.
    """
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    process = subprocess.Popen(
        [*launcher, f"--nproc-per-node={ranks}", *map(str, command)],
        cwd=ROOT,
        env=os.environ
        | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src")))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        # Workers stay in the launcher's session: a hang is ended as a whole.
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        raise AssertionError(f"the ranks hung; they printed:\n{printed}") from None
    is_abort = may_abort and ABORTED_AT_EXIT in printed
    assert process.returncode == 0 or is_abort, printed
    return printed


def leave(main: Callable[[], object]) -> NoReturn:
    """Run all that a rank has to do, and end its process without the interpreter's own end."""
    code = 1
    try:
        main()
        code = 0
    except BaseException:  # noqa: BLE001  # the exit code tells, and so does the trace
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_cases(names: str, folder: Path, ranks: int = 2) -> dict[str, str]:
    """Run all cases of some modules (a,b) in one set of processes: from name to what went wrong."""
    torchrun("-m", "tests.ranks.worker", names, folder, ranks=ranks)
    found: dict[str, str] = {}
    for rank in range(ranks):
        for line in (folder / f"rank{rank}.txt").read_text().split("\x1e"):
            case, _, outcome = line.partition("\n")
            if case:
                found[f"{case} on rank {rank}"] = outcome
    return found
