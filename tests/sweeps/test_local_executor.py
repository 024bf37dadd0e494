"""What only processes of this machine can get wrong: a Ctrl-C while one of them is being begun."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweeps.sweeping import DEADLINE

pytestmark = pytest.mark.slow

INTERRUPTED = """
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path

from rote.sweeps.local_executor import LocalExecutor
from tests.sweeps.sweeping import job_of

connect = forkserver.connect_to_new_process

def interrupted(fds):  # the new process exists, and has not yet been told what to do
    ends = connect(fds)
    signal.raise_signal(signal.SIGINT)
    return ends

forkserver.connect_to_new_process = interrupted
try:
    list(LocalExecutor(1).run([job_of(Path(sys.argv[1]))]))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no fork server")
def test_ctrl_c_while_a_worker_is_begun_leaves_no_traceback_of_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
