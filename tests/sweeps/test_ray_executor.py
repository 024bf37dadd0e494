"""What is particular to Ray: nodes that cannot do their part, shares, and paths."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rote.errors import InputError, MissingExtraError, RoteWarning
from rote.store import CLAIM_FILE, is_locked, read_status
from rote.sweeps import ray_tasks
from rote.sweeps.executor import Finished, Job, Started
from rote.sweeps.ray_executor import RayExecutor
from tests.sweeps.ray_cluster import DATA, HEAD_CPUS, cluster
from tests.sweeps.sweeping import in_time, job_of, lines, owner, until
from tests.workloads.small_runs import write_npz

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


@pytest.fixture
def on_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster()
    monkeypatch.setenv("ROTE_DATA", DATA)


def test_ray_is_loaded_for_an_executor_only() -> None:
    look = "import sys, rote.sweeps.ray_executor; sys.exit('ray' in sys.modules)"
    subprocess.run([sys.executable, "-c", look], check=True)


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rote\[ray\]'"):
        RayExecutor()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "`workers` to be an integer of at least 1, got 0"),
        ({"attempts": 0}, "`attempts` to be an integer of at least 1, got 0"),
        ({"cpus": -1}, "`cpus` to be a number of at least 0, got -1"),
        ({"gpus": 1.5}, "`gpus` to be a share of one, or a whole number of them, got 1.5"),
        ({"cpus": float("nan")}, "`cpus` to be a number of at least 0, got nan"),
        ({"cpus": 0}, "`cpus` or `gpus` to be above 0, got 0 for both"),
        ({"address": "ray://head:10001"}, "'host:port' of the head .* use `ray job submit`"),
        ({"address": "head"}, "`address` to be 'auto' or 'host:port'"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RayExecutor(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("cpus", "slots"), [(1.0, 2), (0.5, 4), (0.1, 20), (2.0, 1)])
@pytest.mark.usefixtures("on_ray")
def test_workers_are_limited_by_the_cpus_per_run(cpus: float, slots: int) -> None:
    assert HEAD_CPUS == 2
    assert RayExecutor(cpus=cpus).workers == slots


@pytest.mark.usefixtures("on_ray")
def test_a_run_that_needs_more_than_any_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"room for a run of 1 CPU and 1 GPU, got a cluster of"):
        list(RayExecutor(gpus=1).run([job_of(tmp_path)]))
    with pytest.raises(InputError, match=r"give `workers` if nodes are still to come"):
        _ = RayExecutor(cpus=3).workers


@pytest.mark.usefixtures("on_ray")
def test_sweep_waits_for_a_node_with_enough_resources(tmp_path: Path) -> None:
    with (
        pytest.warns(RoteWarning, match="No node has room for a run of 3 CPU and 0 GPU yet"),
        closing(RayExecutor(workers=1, cpus=3).run([job_of(tmp_path)])) as events,
    ):
        assert next(events) is None


@pytest.mark.usefixtures("on_ray")
def test_files_are_found_from_the_directory_of_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    images = np.random.default_rng(0).integers(0, 255, (80, 4, 4), dtype=np.uint8)
    write_npz(tmp_path / "own.npz", x_train=images, y_train=np.arange(80) % 10)
    job = job_of(Path("runs"), data={"name": "npz", "path": "own.npz"})
    events = [event for event in in_time(RayExecutor(workers=1).run([job])) if event is not None]
    assert events == [Started(job), Finished(job)]
    assert read_status(tmp_path / job.path).state == "finished"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.usefixtures("on_ray")
def test_a_run_has_one_thread_no_gpu_and_the_data_of_the_sweep(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    events = [event for event in in_time(RayExecutor(workers=1).run([job])) if event is not None]
    assert events == [Started(job), Finished(job)]
    # Its process waits for the next run.
    variables = Path(f"/proc/{owner(job.path)}/environ").read_bytes().split(b"\0")
    assert b"OMP_NUM_THREADS=1" in variables
    assert b"CUDA_VISIBLE_DEVICES=" in variables
    assert f"ROTE_DATA={DATA}".encode() in variables


@pytest.mark.usefixtures("on_ray")
def test_a_node_that_sees_another_storage_ends_the_sweep(tmp_path: Path) -> None:
    store = tmp_path / "store"
    under_way = job_of(tmp_path / "another", epochs=100_000)
    unseen = job_of(store, seed=2)

    def jobs() -> Iterator[Job]:
        yield under_way
        yield job_of(store, seed=1)
        # Asked for when the second is over, so that nobody uses the store at this moment.
        until(lambda: lines(under_way.path) > 0)
        # As on a node where something else, or nothing, is mounted under the same path.
        store.rename(tmp_path / "elsewhere")
        store.mkdir()
        yield unseen

    with pytest.raises(InputError, match=r"cannot reach .*store"):
        for _ in in_time(RayExecutor(workers=2).run(jobs())):
            pass
    assert not lines(unseen.path)
    assert not is_locked(under_way.path / CLAIM_FILE)


@pytest.mark.usefixtures("on_ray")
def test_a_node_with_another_version_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_tasks, "__version__", "99.0")
    with pytest.raises(InputError, match=r"this machine has 99\.0\. Install the"):
        list(RayExecutor(workers=1).run([job_of(tmp_path)]))
    assert not any(path.name.startswith(".ray") for path in tmp_path.iterdir())


@dataclass(frozen=True)
class LocalJob(Job):
    """A job of a package that only this process has."""


@pytest.mark.usefixtures("on_ray")
def test_a_node_that_lacks_a_package_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = ModuleType("only_here")
    monkeypatch.setitem(sys.modules, "only_here", package)
    monkeypatch.setattr(LocalJob, "__module__", "only_here")
    package.LocalJob = LocalJob  # type: ignore[attr-defined]
    job = job_of(tmp_path)
    with pytest.raises(InputError, match=r"cannot start runs: .*only_here.* Install the"):
        list(RayExecutor(workers=1).run([LocalJob(job.spec, job.path)]))
