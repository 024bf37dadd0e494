"""Runs are written and read without the calls that Windows lacks."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rote

pytestmark = pytest.mark.slow

MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
"""What cannot be imported on Windows."""

ATTRIBUTES = {
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "chown", "fork", "forkpty"),
    *("getpgid", "getuid", "geteuid", "killpg", "mkfifo", "posix_fadvise", "pread", "pwrite"),
    *("register_at_fork", "sched_getaffinity", "setsid", "statvfs", "uname", "wait3", "wait4"),
    *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "alarm", "setitimer"),
    *("pthread_kill", "pthread_sigmask", "sigwait"),
}
"""What ``os`` and ``signal`` lack there."""

WITHOUT = """
import errno, fcntl, os, sys, warnings
import torch, polars, scipy.stats  # what other packages do with these calls is theirs

sync = os.fsync
def sync_what_was_written(file):
    if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    sync(file)

os.fsync = sync_what_was_written
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "pwrite", "register_at_fork"):
    delattr(os, name)
sys.modules["fcntl"] = None
import rote
from rote.errors import RoteWarning, RunLockedError
from rote.store import posix_calls

assert posix_calls.fcntl is None
torch.manual_seed(0)
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(200, 8)

def track(resume=False):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = rote.track(
            model, optimizer, inputs=x, num_classes=3, save_to="runs/a", resume=resume
        )
    assert any("has no locks" in str(one.message) for one in told if one.category is RoteWarning)
    return made

tracker = track()
tracker.probe(train_accuracy=0.5)
try:
    track(resume=True)
except RunLockedError as error:
    print("refused")
tracker.close()
tracker = track(resume=True)
tracker.probe(train_accuracy=0.6)
tracker.close()
print(rote.select("runs", "last").pick.step)
"""


def test_a_run_is_written_locked_resumed_and_selected_without_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=tmp_path,
        env=os.environ | {"ROTE_FSYNC": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused", "2"]
    assert (tmp_path / "runs" / "a" / "predictions.bin").stat().st_size == 2 * 200
    assert not (tmp_path / "runs" / "a" / "writer.lock.owner").exists()


def find_unguarded(code: str) -> set[str]:
    """Return the POSIX names that a module uses without asking for them by ``hasattr``."""
    found, tree = set(), ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            found |= {node.module} & MODULES | (names if node.module in ("os", "signal") else set())
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.attr} if node.value.id in ("os", "signal") else set()
    guarded = set(re.findall(r'hasattr\((?:os|signal), "(\w+)"\)', code))
    return found & (MODULES | ATTRIBUTES) - guarded


def test_no_other_module_calls_what_windows_lacks() -> None:
    folder = Path(rote.__file__).parent
    found = {
        path.relative_to(folder).as_posix(): names
        for path in folder.rglob("*.py")
        if (names := find_unguarded(path.read_text(encoding="utf-8")))
    }
    assert found == {
        "store/posix_calls.py": {"fcntl"},  # imported where there is one
        "sweeps/local_executor.py": {"pthread_sigmask"},  # called on Linux only
    }


def test_paths_inside_of_a_folder_are_the_same_on_every_system() -> None:
    folder = Path(rote.__file__).parent
    written = re.compile(r"str\(\w+\.relative_to\(")
    files = (path for path in folder.rglob("*.py") if written.search(path.read_text("utf-8")))
    assert [path.name for path in files] == []  # as_posix(): recorded, compared and hashed
