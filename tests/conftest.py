"""Settings for every test: one thread, Ctrl-C as in a terminal, and which are slow."""

import signal
from pathlib import Path

import pytest
import torch

SLOW = (
    "tests/integrations/",
    "tests/ranks/",
    "tests/examples/",
    "tests/sweeps/",
    "tests/cli/",
    "tests/fuzz/",
    "tests/reporting/test_page",
    "tests/workloads/architectures/",
    "tests/workloads/test_resume.py",
    "tests/store/test_sources.py",
    "tests/store/test_round_trip.py",
    "tests/tracking/test_save_to_loggers.py",
)
"""Tests of trainers, clusters, browsers and whole commands; ``make quick`` leaves them out."""

# A shell that starts the tests in the background has them, and what they start, ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parents[1]
    for item in items:
        if item.path.relative_to(root).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)
