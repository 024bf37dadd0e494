"""Settings of every test: one thread, Ctrl-C as in a terminal, groups that share a worker."""

import gc
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

gc.disable()  # while tests are collected: imports make a million objects, and no garbage

# Thousands of runs are written, and no power is cut but in the tests of that.
os.environ.setdefault("ROTE_FSYNC", "0")
os.environ.setdefault("KERAS_BACKEND", "torch")  # before anything imports keras
# Ray would replace `print` for good: skorch would pickle, and be quiet, no more in that worker.
os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")

# No test asserts a time: a busy machine takes longer than the 200 ms that hypothesis allows.
settings.register_profile("all", deadline=None)  # by `make test-all`
settings.register_profile("patient", deadline=None, max_examples=40)
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


def module_marks(path: Path) -> str:
    """Return the right-hand side of ``pytestmark`` in a test file, without importing the file."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r"^pytestmark = (\[\n.*?^\]|.*?$)", text, flags=re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave slow files out of the fast lane unimported: trainers alone take many seconds."""
    if "not slow" not in config.option.markexpr or not collection_path.name.startswith("test_"):
        return None
    is_slow = collection_path.is_file() and "pytest.mark.slow" in module_marks(collection_path)
    return True if is_slow else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Long ones first, so that no worker is left alone with one at the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all files of one ``xdist_group`` to one worker.

    xdist 3.8 itself ignores that mark with pytest 9.2, and its scheduler knows only names of
    tests, so the mark is read from the text of the file.
    """
    from xdist.scheduler import LoadScopeScheduling

    groups: dict[str, str] = {}

    def group_of(file: str) -> str:
        if file not in groups:
            path = config.rootpath / file
            found = re.search(
                r'xdist_group\("(.+?)"\)', module_marks(path) if path.is_file() else ""
            )
            groups[file] = found[1] if found else ""
        return groups[file]

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.partition("::")[0]) or nodeid

    return Together(config, log)
