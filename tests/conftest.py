"""Settings for every test: one thread, Ctrl-C as in a terminal, and which are slow."""

import gc
import os
import signal
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

SLOW = (
    "tests/integrations/",
    "tests/ranks/",
    "tests/examples/",
    "tests/studies/",
    "tests/sweeps/",
    "tests/cli/",
    "tests/fuzz/",
    "tests/compat/",
    "tests/docs/test_site.py",
    "tests/docs/test_snippets.py",
    "tests/reporting/test_figures.py",
    "tests/probe/test_memorizing_steps.py",
    "tests/probe/test_temperature_scaling.py",
    "tests/reporting/test_hostile.py",
    "tests/reporting/test_live.py",
    "tests/reporting/test_own_charts.py",
    "tests/reporting/test_page",
    "tests/reporting/test_payload.py",
    "tests/reporting/test_plot.py",
    "tests/reporting/test_sample.py",
    "tests/reporting/test_signals.py",
    "tests/reporting/test_suspect_pictures.py",
    "tests/reporting/test_theory_figure.py",
    "tests/selection/test_no_zeta.py",
    "tests/selection/test_suspects.py",
    "tests/workloads/architectures/",
    "tests/workloads/test_resume.py",
    "tests/store/test_own_logger.py",
    "tests/store/test_round_trip.py",
    "tests/store/test_sources.py",
    "tests/store/test_table.py",
    "tests/test_public_names.py",
    "tests/test_readme.py",
    "tests/theory/test_check.py",
    "tests/tracking/test_save_to",
    "tests/workloads/data/test_real_data.py",
)
"""Tests of trainers, clusters, browsers and whole commands; ``make quick`` leaves them out."""

TOGETHER = {
    "tests/integrations/test_*_ranks.py*": "",  # processes of their own
    "tests/integrations/test_huggingface*": "huggingface",
    "tests/integrations/test_lightning*": "lightning",
    "tests/compat/*": "compat",
    "tests/docs/test_site.py*": "site",
    "tests/studies/test_results.py*": "studies",
    "tests/cli/test_commands.py*": "commands",
    "tests/cli/test_probe.py*": "probe",
    "tests/cli/test_report.py*": "figures",
    "tests/cli/test_study.py*": "study",
    "tests/reporting/test_page*": "pages",  # one browser, and every page is made once
    "tests/reporting/test_live.py*": "pages",
    "tests/reporting/test_own_charts.py*": "pages",
    "tests/reporting/test_signals.py*": "pages",
    "tests/reporting/*": "figures",  # a worker's first chart takes seconds
    "tests/store/test_round_trip.py*": "loggers",  # MLflow takes seconds to import
    "tests/store/test_sources.py*": "loggers",
    "tests/tracking/test_save_to*": "loggers",
    "tests/selection/test_no_zeta.py*": "loggers",
    "tests/examples/test_loggers.py*mlflow*": "loggers",
    "tests/tracking/test_notes.py*mlflow*": "loggers",
    "tests/workloads/test_resume.py*": "resume",
    "tests/workloads/architectures/*": "architectures",
    "tests/sweeps/test_ray_connection.py*": "clusters",  # one after the other
    "tests/sweeps/test_ray*": "ray",
    "tests/sweeps/test_executor_contract.py*ray*": "ray",
    # One process from which all their workers are forked.
    "tests/sweeps/test_executor_contract.py*local*": "sweeps",
    "tests/sweeps/test_sweep.py*": "sweeps",
    "tests/sweeps/test_cost_estimate.py*": "sweeps",
    "tests/sweeps/test_tuning.py*executor1*": "sweeps",
    "tests/cli/test_sweep.py*": "sweeps",
}
"""Tests that share what is slow to make, an import, a fixture, a cluster: one worker has it."""

gc.disable()  # while tests are collected: imports make a million objects, and no garbage

# Thousands of runs are written, and no power is cut but in the tests of that.
os.environ.setdefault("ROTE_FSYNC", "0")
os.environ.setdefault("KERAS_BACKEND", "torch")  # before anything imports keras
# Ray would replace `print` for good: skorch would pickle, and be quiet, no more in that worker.
os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")

# No test asserts a time: a busy machine takes longer than the 200 ms that hypothesis allows.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# A shell that starts the tests in the background has them, and what they start, ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["ROTE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


def pytest_collection_finish() -> None:
    gc.enable()
    gc.set_threshold(50_000, 20, 50)  # tests that mean garbage collect it themselves


LOADED = {"modules": 0}


def pytest_runtest_setup() -> None:
    """Keep what modules hold, a million objects, out of every garbage collection from now on."""
    if len(sys.modules) > LOADED["modules"] + 200:
        LOADED["modules"] = len(sys.modules)
        gc.freeze()


def is_slow(path: Path) -> bool:
    return path.relative_to(Path(__file__).parents[1]).as_posix().startswith(SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What the fast lane leaves out is not imported either: trainers alone take many seconds."""
    return True if "not slow" in config.option.markexpr and is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
    # Long ones first, so that no worker is left alone with one at the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups by name: the marks of xdist 3.8 have no effect with pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            found = (group for name, group in TOGETHER.items() if fnmatchcase(nodeid, name))
            return next(found, "") or nodeid

    return Together(config, log)
