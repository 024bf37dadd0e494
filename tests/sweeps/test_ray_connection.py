"""Connections: to a cluster by its address, with and without its token, and to one of our own."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from rote.errors import InputError
from rote.sweeps.ray_executor import RayConnection
from tests.sweeps.ray_cluster import TOKEN, end, processes_of
from tests.sweeps.sweeping import DEADLINE, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("clusters"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray (extra `ray`)"),
]

BIN = Path(sys.executable).parent
SWEEP = """
[base]
epochs = 2
[base.data]
name = "digits"
train_size = 60
test_size = 20
[base.probe]
holdout_size = 12
batch = 8
[grid]
seed = [0, 1]
"""


@dataclass(frozen=True)
class Place:
    """A temporary directory and environment in which Ray meets nobody else's cluster."""

    folder: Path

    def environment(self, **changes: str) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        # Twenty refusals in a row take twenty seconds.
        own = {"RAY_TMPDIR": str(self.folder), "RAY_NUM_REDIS_GET_RETRIES": "2"}
        return clean | own | {"HOME": str(self.folder), "OMP_NUM_THREADS": "1"} | changes

    def sweep(self, store: Path, *options: str, **changes: str) -> subprocess.CompletedProcess[str]:
        file = self.folder / "sweep.toml"
        file.write_text(SWEEP)
        command: list[str | Path] = [
            BIN / "rote",
            "sweep",
            file,
            "--out",
            store,
            "--executor",
            "ray",
            *options,
        ]
        return subprocess.run(
            [*command, "--quiet", "--json"],
            env=self.environment(**changes),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )


@pytest.fixture
def place() -> Iterator[Place]:
    # Paths of sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="rote-ray-", dir="/tmp"))
    yield Place(folder)
    end(processes_of(folder))
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def head(place: Place) -> str:
    """The address of a cluster that was started from a shell, with a token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command: list[str | Path] = [BIN / "ray", "start", "--head", f"--port={port}", "--num-cpus=2"]
    needless = ["--include-dashboard=false", "--include-log-monitor=false", "--no-monitor"]
    subprocess.run(
        [*command, *needless, "--disable-usage-stats"],
        env=place.environment(
            RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN, RAY_prestart_worker_first_driver="0"
        ),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=DEADLINE,
    )
    return f"127.0.0.1:{port}"


def test_unreachable_address_fails_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=r"No Ray cluster answers .*\. Start one there"):
            RayConnection(address)._join(address, {})


def test_cluster_accepts_a_valid_token(place: Place, head: str, tmp_path: Path) -> None:
    done = place.sweep(
        tmp_path / "runs", "--address", head, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] == 2
    refused = place.sweep(tmp_path / "more", "--address", head)
    assert refused.returncode == 2, refused.stderr
    assert f"The Ray cluster at '{head}' refused the connection" in refused.stderr
    assert "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=" in refused.stderr
    assert "RAY_AUTH_MODE is not set and RAY_AUTH_TOKEN is not set" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "more").exists() or not any((tmp_path / "more").iterdir())
    # It is still there, and found without its address by who is on one of its machines.
    done = place.sweep(
        tmp_path / "runs", "--address", "auto", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["skipped"] == 2


@pytest.mark.full
def test_a_cluster_of_our_own_ends_with_the_sweep(place: Place, tmp_path: Path) -> None:
    done = place.sweep(tmp_path / "runs", "--workers", "2", RAY_AUTH_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] == 2
    assert done.stderr == ""
    until(lambda: not processes_of(place.folder))
