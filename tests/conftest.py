"""Settings for every test: one thread, Ctrl-C as in a terminal, and which are slow."""

import os
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
    "tests/reporting/test_figures.py",
    "tests/reporting/test_hostile.py",
    "tests/reporting/test_own_charts.py",
    "tests/reporting/test_page",
    "tests/reporting/test_payload.py",
    "tests/reporting/test_plot.py",
    "tests/reporting/test_sample.py",
    "tests/reporting/test_theory_figure.py",
    "tests/workloads/architectures/",
    "tests/workloads/test_resume.py",
    "tests/store/test_own_logger.py",
    "tests/store/test_round_trip.py",
    "tests/store/test_sources.py",
    "tests/store/test_table.py",
    "tests/test_public_names.py",
    "tests/theory/test_check.py",
    "tests/tracking/test_save_to",
    "tests/workloads/data/test_real_data.py",
)
"""Tests of trainers, clusters, browsers and whole commands; ``make quick`` leaves them out."""

# Thousands of runs are written, and no power is cut but in the tests of that.
os.environ.setdefault("ROTE_FSYNC", "0")

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
