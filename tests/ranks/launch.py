"""Start several ranks, and end them all if they do not end by themselves."""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from torch.distributed import TCPStore

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
    printed, code = _run([*launcher, f"--nproc-per-node={ranks}", *map(str, command)], {}, deadline)
    is_abort = may_abort and ABORTED_AT_EXIT in printed
    assert code == 0 or is_abort, printed
    return printed


def forked(module: str, *arguments: str | Path, ranks: int = 2) -> None:
    """Run ``main`` of a module on several ranks that have loaded torch together.

    Here is what is else the agent of torchrun: the store by which the ranks find each other.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    variables = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
    }
    command = [sys.executable, "-m", "tests.ranks.forked", module, *map(str, arguments)]
    printed, code = _run(command, variables, DEADLINE)
    assert code == 0, printed


def _run(command: list[str], variables: dict[str, str], deadline: float) -> tuple[str, int]:
    """What all ranks print, and the exit code."""
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src")))}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | own | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        # Ranks stay in the session of what started them: a hang is ended as a whole.
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        raise AssertionError(f"the ranks hung; they printed:\n{printed}") from None
    return printed, process.returncode


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
    forked("tests.ranks.worker", names, folder, ranks=ranks)
    found: dict[str, str] = {}
    for rank in range(ranks):
        for line in (folder / f"rank{rank}.txt").read_text().split("\x1e"):
            case, _, outcome = line.partition("\n")
            if case:
                found[f"{case} on rank {rank}"] = outcome
    return found
